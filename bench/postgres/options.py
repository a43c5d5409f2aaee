"""How much to measure."""

from __future__ import annotations

from typing import NamedTuple


class Options(NamedTuple):
    """`quick` proves that everything runs; its figures mean little. `match` keeps the participants of that name."""

    quick: bool = False
    rounds: int = 3
    match: str = ""

    @property
    def jobs(self) -> int:
        return 1_000 if self.quick else 20_000

    @property
    def worth_keeping(self) -> bool:
        return not (self.quick or self.match)
