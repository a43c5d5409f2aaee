"""Third-party clients of Notion, as real users have them: where each is on this machine, or how to get it."""

from __future__ import annotations

import os
import shutil

import pytest

_NAMES = ("ntn", "notion")


def notion_cli() -> str:
    """The real notion-cli. No package registry serves it everywhere, so not even CI can install it by itself."""
    found = os.environ.get("DIBS_TEST_NTN") or next(filter(None, map(shutil.which, _NAMES)), None)
    if not found:
        pytest.skip("notion-cli is missing: install it, or name its binary (ntn) in DIBS_TEST_NTN")
    return found


def holds_notion_cli(folder: str) -> bool:
    return any(os.path.exists(os.path.join(folder, name)) for name in _NAMES)
