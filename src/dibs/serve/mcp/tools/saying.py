"""say: what a person wants, in their own words, handed on by the model they speak to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.chat.choosing import chosen_ear
from dibs.core.errors import Misconfigured
from dibs.serve.mcp.models import Heard

if TYPE_CHECKING:
    from dibs.desk import Desk
    from dibs.serve.mcp.arguments import Say
    from dibs.serve.mcp.sessions import Session


def say(desk: Desk, session: Session, asked: Say) -> Heard:
    sender = session.who.sender
    if sender is None:
        raise Misconfigured(
            "This session speaks for no one. A person starts it with 'dibs mcp --sender WHO', or gives it a sender's "
            "token; use add for single tasks meanwhile."
        )
    said = chosen_ear(desk, sender).say(asked.text, preview=asked.preview)
    return Heard(kind="message" if said.command is None else "command", reply=said.reply.text)
