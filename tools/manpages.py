"""Manual pages from the parsers: `python tools/manpages.py FOLDER` writes one for each script and command."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dibs import __version__
from dibs.cli.commands.completion import catalogues

if TYPE_CHECKING:
    from argparse import Action

    from dibs.cli.commands.completion import Catalogue, Entry

_ABOUT = {
    "dibs": "the desk where agents pick up work: one task, one holder, in the right order",
    "ralph": "lease-based tasks for agents on many hosts, in the order of a plan",
    "ntask": "pull tasks from Notion, or any other store",
}
_MORE = "The documentation has more; its page on the command line has an example of each command."


def pages() -> dict[str, str]:
    """The file name and content of each page."""
    found: dict[str, str] = {}
    for catalogue in catalogues():
        found[f"{catalogue.script}.1"] = _overview(catalogue)
        found |= {f"{'-'.join(entry.words)}.1": _page(entry) for entry in catalogue.entries}
    return found


def _overview(catalogue: Catalogue) -> str:
    lines = [_head(catalogue.script, _ABOUT[catalogue.script]), ".SH COMMANDS"]
    for entry in catalogue.entries:
        lines += [".TP", f".B {_text(' '.join(entry.words[1:]))}", _text(entry.summary)]
    pages_of_commands = rf"Each command has a page, such as \fB{'-'.join(catalogue.entries[0].words)}\fR(1)."
    return "\n".join([*lines, ".SH SEE ALSO", pages_of_commands, _MORE, ""])


def _page(entry: Entry) -> str:
    usage = " ".join(entry.parser.format_usage().removeprefix("usage: ").split())
    lines = [_head("-".join(entry.words), entry.summary), ".SH SYNOPSIS", _text(usage), ".SH OPTIONS"]
    for action in entry.parser._actions:  # noqa: SLF001 - argparse has no other way to ask
        lines += [".TP", f".B {_text(_called(action))}", _text(" ".join((action.help or "").split()))]
    return "\n".join([*lines, ".SH SEE ALSO", rf"\fB{entry.words[0]}\fR(1). {_MORE}", ""])


def _called(action: Action) -> str:
    one_of = "{" + ",".join(map(str, action.choices or ())) + "}"
    value = "" if action.nargs == 0 else str(action.metavar or one_of)
    return f"{', '.join(action.option_strings)} {value}".strip()


def _head(name: str, about: str) -> str:
    return f'.TH "{name.upper()}" "1" "" "dibs {__version__}" "dibs"\n.SH NAME\n{_text(name)} \\- {_text(about)}'


def _text(plain: str) -> str:
    """Escaped for roff, which reads ASCII, and more into backslashes, hyphens, and the beginning of a line."""
    escaped = plain.replace("\\", r"\e").replace("-", r"\-")
    escaped = "".join(char if char.isascii() else rf"\[u{ord(char):04X}]" for char in escaped)
    return rf"\&{escaped}" if escaped[:1] in {".", "'"} else escaped


def main(folder: str) -> int:
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (Path(folder) / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
