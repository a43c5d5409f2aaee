"""A process that sends at the limiter's pace: `pacing.py FILE LOG PER_MINUTE COUNT [AT_ONCE]`. It logs the time before
and after each wait, and its process id.
"""

from __future__ import annotations

import os
import sys
import time

from dibs.stores.notion.gateway import Limiter


def main() -> None:
    path, log, per_minute, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    at_once = int(sys.argv[5]) if len(sys.argv) > 5 else 1
    limiter = Limiter(path, per_minute=per_minute)
    with open(log, "a", encoding="ascii") as noted:
        for _ in range(0, count, at_once):
            asked = time.monotonic()
            limiter.reserve(at_once)
            for _ in range(at_once):
                noted.write(f"{asked:.6f} {time.monotonic():.6f} {os.getpid()}\n")
            noted.flush()


if __name__ == "__main__":
    main()
