"""Every error code is documented, and a test provokes each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.core import errors

from .provoked import SCENES

if TYPE_CHECKING:
    from support.cli import Cli

PARENTS = {"ERROR", "REFUSED", "BROKEN_RULE"}  # base classes, which are never raised themselves


def codes() -> set[str]:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.DibsError)]
    return {kind.code for kind in kinds}


def test_every_error_has_a_scene() -> None:
    assert SCENES.keys() == codes() - PARENTS


@pytest.mark.parametrize("code", SCENES)
def test_error_is_provoked(code: str, cli: Cli) -> None:
    assert SCENES[code](cli) == code
