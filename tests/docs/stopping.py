"""`python stopping.py LINES SECONDS WORD …`: `timeout SECONDS WORD …` that lets it print LINES first.

A busy machine may take longer than SECONDS to print what a page promises.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import IO

_PATIENCE = 120.0  # seconds for all of the lines
_STOPPED = 124


class Printed:
    """Counts the lines that pass through."""

    def __init__(self) -> None:
        self.lines = 0

    def copy(self, source: IO[bytes], target: IO[bytes]) -> None:
        for line in source:
            self.lines += 1
            with suppress(BrokenPipeError):  # `head` has seen enough
                target.write(line)
                target.flush()


def main(lines: int, seconds: float, command: list[str]) -> int:
    began = time.monotonic()
    printed = Printed()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        pairs = ((program.stdout, sys.stdout.buffer), (program.stderr, sys.stderr.buffer))
        copying = [threading.Thread(target=printed.copy, args=pair) for pair in pairs]
        for thread in copying:
            thread.start()
        while program.poll() is None:
            passed = time.monotonic() - began
            if passed > _PATIENCE or (passed > seconds and printed.lines >= lines):
                program.terminate()
                program.wait()
                status = _STOPPED
                break
            time.sleep(0.05)
        else:
            status = program.returncode
        for thread in copying:
            thread.join()
    return status


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]))
