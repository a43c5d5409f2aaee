"""What the labelled set says may not get worse than what is promised."""

from __future__ import annotations

from eval import measures

from dibs.chat.analyst.analysis import Thresholds
from dibs.chat.analyst.embedders import Builtin


def _ignore(_: measures.Miss) -> None:
    pass


def test_the_held_out_half_keeps_what_is_promised() -> None:
    commands = measures.commands("heldout", _ignore)
    assert commands.precision >= 0.98
    assert commands.recall >= 0.95
    assert measures.deliverables("heldout", _ignore).recall >= 0.85
    pairs = measures.pairs("heldout", Builtin(), Thresholds(), _ignore)
    assert pairs.said.f1 >= 0.9
    assert pairs.same.precision >= 0.9
