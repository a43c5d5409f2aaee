"""Scores of the labelled set may not fall below the promised ones."""

from __future__ import annotations

from eval import measures

from dibs.chat.analyst.analysis import Thresholds
from dibs.chat.analyst.embedders import Builtin


def _ignore(_: measures.Miss) -> None:
    pass


def test_held_out_half_meets_its_promises() -> None:
    commands = measures.commands("heldout", _ignore)
    assert commands.precision >= 0.98
    assert commands.recall >= 0.95
    assert measures.deliverables("heldout", _ignore).recall >= 0.85
    pairs = measures.pairs("heldout", Builtin(), Thresholds(), _ignore)
    assert pairs.said.f1 >= 0.9
    assert pairs.same.precision >= 0.9
