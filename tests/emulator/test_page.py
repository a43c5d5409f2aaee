"""The how-to page names every fault, setting and control address."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from dibs.lab.emulator.api import KINDS, KNOBS

if TYPE_CHECKING:
    from dibs.lab.emulator import Emulator

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "notion-emulator.md"


def cells(heading: str) -> str:
    """The table under the row that begins with this."""
    text = PAGE.read_text(encoding="utf-8")
    return text[text.index(f"| {heading} |") :].split("\n\n", 1)[0]


def names(text: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", text))


def test_every_fault_is_listed() -> None:
    first = "\n".join(line.split(" | ")[0] for line in cells("Kind").splitlines())
    assert names(first) == set(KINDS)


def test_every_setting_is_listed() -> None:
    (line,) = [line for line in cells("Address").splitlines() if line.startswith("| `POST faults` ")]
    assert names(line) >= KNOBS


def test_every_address_is_listed(notion: Emulator) -> None:
    first = "\n".join(line.split(" | ")[0] for line in cells("Address").splitlines())
    told = {word.split()[-1] for word in names(first)}
    assert told == {verb.split()[1] for verb in notion._control._verbs}
