"""Put what commands really answer into the pages: `python tests/docs/refresh.py [PAGE …]`.

Only answers that no longer fit are rewritten, so `…` stays where it still holds. Read the difference before you
commit it: a changed answer is a changed promise.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from docs.pages import MORE, PROMPT, name_of, pages, sessions
from docs.replay import replay


def refreshed(text: str, folder: Path) -> str:
    lines = text.splitlines()
    moved = 0
    for answered in replay(text, folder):
        if answered.fits:
            continue
        if any("Traceback" in line for line in answered.answer):
            raise SystemExit("\n".join([answered.typed, *answered.answer]))
        first = answered.exchange.line - 1 + moved + 1 + answered.exchange.command.count("\n")
        last = first + len(answered.exchange.answer)
        lines[first:last] = answered.answer
        moved += len(answered.answer) - len(answered.exchange.answer)
    return "\n".join(lines) + "\n"


def main(names: list[str]) -> int:
    for page in [Path(name).resolve() for name in names] or [*pages(), *sessions()]:
        text = page.read_text(encoding="utf-8")
        if f"\n{PROMPT}" not in text and f"\n{MORE}" not in text:
            continue
        with tempfile.TemporaryDirectory() as folder:
            new = refreshed(text, Path(folder))
        if new != text:
            page.write_text(new, encoding="utf-8")
            sys.stdout.write(f"refreshed {name_of(page)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
