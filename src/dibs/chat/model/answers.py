"""What a model has made of messages, checked word by word: it may be wrong, broken, or led astray by what people wrote.

It must account for every message and for nothing else: each task comes of messages that are there and is about what
they say, each link begins at a task of its own. What fails one check is refused as a whole; the built-in analyst is
there.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from dibs.chat.analyst.analysis import Message, Relation
from dibs.chat.analyst.deliverables import KINDS, deliverable
from dibs.chat.analyst.duplicates import words_of
from dibs.chat.analyst.requests import Request, title
from dibs.chat.language.cues import means
from dibs.chat.language.words import keywords, straight
from dibs.chat.model.asking import Wrong
from dibs.chat.pieces import Piece
from dibs.core.task import LinkKind

_MOST = 20  # tasks for each message, on average
_LONGEST = 500  # characters that a title or a reason may have before it is cut
_GROUNDED = 0.5  # of a title's telling words have to be in what was said
_SAID, _THOUGHT = 0.9, 0.6


class Drawn(NamedTuple):
    """A task as the model has it."""

    ref: str
    title: str
    deliverable: str
    piece: Piece


def drawn(answer: Mapping[str, Any], messages: Mapping[str, Message], known: Iterable[str]) -> list[Drawn]:
    """Its tasks, named t1 onwards in the order of what was said. `known` are the titles of the open tasks."""
    rows = _rows(answer, "tasks")
    if len(rows) > _MOST * len(messages):
        raise Wrong("it makes too many tasks")
    said = {stem for text in (*(one.text for one in messages.values()), *known) for stem in keywords(text)}
    found = [_drawn(row, messages, said) for row in rows]
    refs = [one.ref for one in found]
    if len(set(refs)) < len(refs):
        raise Wrong("two of its tasks have one name")
    _account(found, _names(answer.get("idle", [])), messages)
    return found


def _drawn(row: Any, messages: Mapping[str, Message], said: set[str]) -> Drawn:
    ref, name = _text(row, "ref"), title(" ".join(_text(row, "title").split()))
    sources = _names(row.get("messages"))
    if not name or not sources or not set(sources) <= set(messages):
        raise Wrong("a task comes of messages that are not there")
    telling = keywords(name)
    found = sum(any(means(mine, theirs) for theirs in said) for mine in telling)
    if not telling or found < _GROUNDED * len(telling):
        raise Wrong("a task is about something that nobody has said")
    spoken = [messages[source] for source in dict.fromkeys(sources)]
    whole = "\n".join(one.text for one in spoken)
    kind = row.get("deliverable")
    piece = Piece(Request(name, whole), words_of(name), tuple(one.ref for one in spoken))
    return Drawn(ref, name, kind if kind in KINDS else deliverable(name), piece)


def _account(found: Sequence[Drawn], idle: Sequence[str], messages: Mapping[str, Message]) -> None:
    by_ref = {one.ref: name for name, one in messages.items()}
    used = {by_ref[ref] for one in found for ref in one.piece.messages}
    if set(idle) & used or set(idle) | used != set(messages):
        raise Wrong("it leaves messages out, or has them twice")


def related(answer: Mapping[str, Any], names: Mapping[str, str], known: Mapping[str, str], said: str) -> list[Relation]:
    """Its links. `names` are the refs that its tasks have got, `known` the ids of open tasks by what they are called.

    A link makes a task of its own wait, never one that was there: that is for people to say.
    """
    return [_relation(row, names, {**names, **known}, straight(said).lower()) for row in _rows(answer, "links")]


def _relation(row: Any, names: Mapping[str, str], others: Mapping[str, str], said: str) -> Relation:
    task, on, kind = (_text(row, field) for field in ("from", "to", "kind"))
    if task not in names or on not in others or task == on:
        raise Wrong("a link leads from or to a task that is not there")
    if kind not in set(LinkKind):
        raise Wrong("a link is of no kind there is")
    because = straight(str(row.get("because") or ""))[:_LONGEST].strip(" .\"'")
    explicit = bool(because) and because.lower() in said
    return Relation(
        names[task],
        others[on],
        LinkKind(kind),
        1.0 if explicit else _THOUGHT,
        _SAID if explicit else _THOUGHT,
        "explicit" if explicit else "inferred",
        f'because of "{because}"' if explicit else "because the language model thinks so",
    )


def _rows(answer: Mapping[str, Any], field: str) -> list[Any]:
    found = answer.get(field, [])
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise Wrong(f"its {field} are no list of objects")
    return found


def _text(row: Any, field: str) -> str:
    found = row.get(field)
    if not isinstance(found, str) or not found.strip():
        raise Wrong(f"something has no {field}")
    return found[:_LONGEST]


def _names(found: Any) -> list[str]:
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise Wrong("messages are not named")
    return found
