"""The embedder, analyst, reader and session that the environment selects, the same for every interface."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dibs.chat.analyst.analysis import Analyst
    from dibs.chat.analyst.embedders import Embedder
    from dibs.chat.conversation.delivery import Unify
    from dibs.chat.conversation.reader import Reader
    from dibs.chat.steering.session import ChatSession, Sync
    from dibs.desk import Desk


def chosen_embedder() -> Embedder:
    from dibs.chat.analyst.embedders import DEFAULT, open_embedder

    return open_embedder(os.environ.get("DIBS_EMBEDDER") or DEFAULT, os.environ)


def chosen_analyst(embedder: Embedder) -> Analyst:
    """A language model if the environment names one, else the built-in analyst."""
    from dibs.chat.analyst.services import open_model
    from dibs.chat.analyst.word_analyst import WordAnalyst

    model = open_model(os.environ)
    if model is None:
        return WordAnalyst(embedder)
    from dibs.chat.analyst.model_analyst import ModelAnalyst

    return ModelAnalyst(model, embedder)


def chosen_unify() -> Unify:
    """The function that writes the answer to a group of related tasks."""
    from dibs.chat.analyst.services import open_model
    from dibs.chat.conversation.notes import answer_text

    model = open_model(os.environ)
    if model is None:
        return answer_text
    from dibs.chat.conversation.notes import synthesiser

    return synthesiser(model)


def chosen_reader(desk: Desk) -> Reader:
    from dibs.chat.conversation.reader import Reader

    embedder = chosen_embedder()
    return Reader(desk, chosen_analyst(embedder), embedder, desk.by.agent or "reader")


def chosen_session(desk: Desk, sender: str, *, sync: Sync = None) -> ChatSession:
    """A session that uses the built-in embedder for commands, so that no command waits for a service."""
    from dibs.chat.analyst.embedders import Builtin
    from dibs.chat.conversation.inbox import SenderScopes
    from dibs.chat.steering.session import ChatSession

    return ChatSession(SenderScopes(desk, sender), Builtin(), chosen_reader(desk), sync=sync)
