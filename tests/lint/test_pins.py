"""Both environments are pinned to the same versions, so `make run` uses tested ones."""

from __future__ import annotations

import re

from packaging.utils import canonicalize_name

from docs.pages import ROOT
from support.wheel import distributions

_PIN = re.compile(r"^([\w.-]+)==(\S+)", re.MULTILINE)


def pins(name: str) -> dict[str, str]:
    return dict(_PIN.findall((ROOT / name).read_text(encoding="utf-8")))


def test_both_environments_pin_the_same_versions() -> None:
    assert pins("requirements-run.txt").items() <= pins("requirements.txt").items()


def test_the_board_finds_all_that_it_needs() -> None:
    needed: set[str] = set(map(canonicalize_name, distributions("serve")))
    assert needed <= pins("requirements-run.txt").keys()
