"""The how-to page names every accident, every knob and every address of the emulator's own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from dibs.lab.emulator.faults import KINDS, KNOBS

if TYPE_CHECKING:
    from dibs.lab.emulator import Emulator

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "notion-emulator.md"


def cells(heading: str) -> str:
    """The table under the row that begins with this."""
    text = PAGE.read_text(encoding="utf-8")
    return text[text.index(f"| {heading} |") :].split("\n\n", 1)[0]


def names(text: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", text))


def test_every_kind_of_accident_is_told_and_no_other() -> None:
    first = "\n".join(line.split(" | ")[0] for line in cells("Kind").splitlines())
    assert names(first) == set(KINDS)


def test_every_knob_is_told() -> None:
    (line,) = [line for line in cells("Address").splitlines() if line.startswith("| `POST faults` ")]
    assert names(line) >= KNOBS


def test_every_address_is_told(notion: Emulator) -> None:
    first = "\n".join(line.split(" | ")[0] for line in cells("Address").splitlines())
    told = {word.split()[-1] for word in names(first)}
    assert told == {verb.split()[1] for verb in notion._control._verbs}
