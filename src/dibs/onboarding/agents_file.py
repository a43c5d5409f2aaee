"""AGENTS.md: where agents of any make look for what to know about a project."""

from __future__ import annotations

import os

from dibs.core.errors import InvalidInput
from dibs.fleet.instructions import INSTRUCTIONS
from dibs.onboarding.block import MARKDOWN, Unfit, with_block
from dibs.onboarding.files import read, write

NAME = "AGENTS.md"
BODY = f"## Where the work comes from\n\n{INSTRUCTIONS}"


def write_block(folder: str, *, force: bool = False) -> None:
    """See to it that the file has our block as it should be; a DibsError says why it was left alone."""
    path = os.path.join(folder, NAME)
    before = read(path)
    try:
        after = with_block(before, BODY, MARKDOWN, force=force)
    except Unfit as unfit:
        raise InvalidInput(f"{NAME} was left alone: {unfit}.") from None
    if after != before:
        write(path, after)
