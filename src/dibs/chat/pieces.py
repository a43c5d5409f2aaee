"""The pieces of work in a batch, in the order they were said, before anything is decided about them."""

from collections.abc import Sequence
from typing import NamedTuple

from dibs.chat.analyst.analysis import Message
from dibs.chat.analyst.duplicates import Words, words_of
from dibs.chat.analyst.requests import Request, explains, read, reported
from dibs.chat.language.cues import Cue, resolve


class Piece(NamedTuple):
    """A piece of work, all messages that speak of it, and what was said of it beyond the request, and before it."""

    request: Request
    words: Words
    messages: tuple[str | int, ...]
    details: tuple[str, ...] = ()
    why: str = ""


class Told(NamedTuple):
    """A cue, and the piece whose order it tells."""

    piece: int
    cue: Cue


class Gathered(NamedTuple):
    pieces: tuple[Piece, ...]
    told: tuple[Told, ...]
    idle: tuple[str | int, ...]


def gather(messages: Sequence[Message]) -> Gathered:
    pieces: list[Piece] = []
    idle: list[str | int] = []
    reads = [(message.ref, read(message.text)) for message in messages]
    why: tuple[str | int, str] | None = None  # a report that explains the message after it
    for number, (ref, found) in enumerate(reads):
        follows = reads[number + 1][1].requests if number + 1 < len(reads) else ()
        asked, explained = found.requests, why
        why = (ref, found.report) if found.report and follows and explains(found.report, follows[0]) else None
        if found.report and why is None:
            asked += reported(found.report)
        fresh = [Piece(request, words_of(request.action), (ref,)) for request in asked]
        if explained and fresh:
            fresh[0] = _with_details(fresh[0], explained[0], (explained[1],))._replace(why=explained[1])
        pieces += fresh
        if found.details and pieces:
            pieces[-1] = _with_details(pieces[-1], ref, found.details)
        elif not asked and why is None:
            idle.append(ref)
    return Gathered(*_settled(pieces), tuple(idle))


def _with_details(piece: Piece, message: str | int, details: tuple[str, ...]) -> Piece:
    spoken = tuple(dict.fromkeys((*piece.messages, message)))
    return piece._replace(messages=spoken, details=piece.details + details)


def _settled(pieces: list[Piece]) -> tuple[tuple[Piece, ...], tuple[Told, ...]]:
    """A statement about work that was asked for is no work of its own: what it tells belongs to that work."""
    subjects = {number: _subject(number, pieces) for number, piece in enumerate(pieces) if piece.request.statement}
    stays = [number for number in range(len(pieces)) if subjects.get(number) is None]
    place = {number: index for index, number in enumerate(stays)}
    kept = [pieces[number] for number in stays]
    told: list[Told] = []
    for number, piece in enumerate(pieces):
        subject = subjects.get(number)
        home = place[number if subject is None else subject]
        if subject is not None:
            spoken = tuple(dict.fromkeys((*kept[home].messages, *piece.messages)))
            kept[home] = kept[home]._replace(messages=spoken)
        told += [Told(home, cue) for cue in piece.request.cues]
    return tuple(kept), tuple(told)


def _subject(number: int, pieces: list[Piece]) -> int | None:
    """The piece that a statement tells about, other than the one it is told to wait for."""
    stems = [piece.words.stems for piece in pieces]
    statements = {other for other, piece in enumerate(pieces) if piece.request.statement}
    request = pieces[number].request
    awaited = {one for cue in request.cues for one in resolve(cue.about, stems, number, statements).pieces}
    meant = resolve(request.action, stems, number, statements | awaited).pieces
    return meant[0] if meant else None
