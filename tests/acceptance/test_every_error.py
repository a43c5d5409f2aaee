"""Every error code is documented, and each is met here by doing something that leads to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.core import errors

from .provoked import SCENES

if TYPE_CHECKING:
    from support.cli import Cli

PARENTS = {"ERROR", "REFUSED", "BROKEN_RULE"}  # they are caught, and never raised themselves


def codes() -> set[str]:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.DibsError)]
    return {kind.code for kind in kinds}


def test_there_is_a_way_to_meet_each_error() -> None:
    assert SCENES.keys() == codes() - PARENTS


@pytest.mark.parametrize("code", SCENES)
def test_it_is_met(code: str, cli: Cli) -> None:
    assert SCENES[code](cli) == code
