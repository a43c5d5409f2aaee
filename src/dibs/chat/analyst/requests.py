"""The requests in a batch of messages, with their cues. A message contains any number of them."""

import math
import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from dibs.chat.analyst.analysis import Message
from dibs.chat.analyst.deliverables import opens_with_verb
from dibs.chat.analyst.duplicates import Words, words_of
from dibs.chat.language.acts import CLASSES, REQUEST, Around, bucket, first_reading, patterns, tokens, weights
from dibs.chat.language.cues import PREVIOUS, Cue, cut, resolve
from dibs.chat.language.sentences import bare_request, is_small_talk, parted, sentences, takes_back
from dibs.chat.language.words import keywords, same_root
from dibs.core.task import LinkKind


class Request(NamedTuple):
    """`action` is the request without its cues, `whole` its full text. A statement refers to an earlier request."""

    action: str
    whole: str
    cues: tuple[Cue, ...] = ()
    statement: bool = False


class ParsedMessage(NamedTuple):
    """A parsed message. `details` add to the request before.

    `report` is the whole text of a message that only reports a fact, which may explain the next request.
    """

    requests: tuple[Request, ...]
    details: tuple[str, ...]
    report: str = ""
    quoted: tuple[str, ...] = ()


def read(message: str) -> ParsedMessage:
    found: list[Request] = []
    details: list[str] = []
    reports: list[str] = []
    for sentence in _joined(sentences(message)):
        bare = bare_request(sentence)
        if is_small_talk(sentence) or is_small_talk(bare) or ((found or reports) and not keywords(bare)):
            continue
        if _is_detail(bare):
            details.append(sentence)
        elif not found and _is_report(bare):
            reports.append(bare)
        else:
            found += _explained(reports, list(_requests(_with_subject(bare))))
            reports = []
    return ParsedMessage(tuple(found), tuple(details), ". ".join(reports))


def reported(report: str) -> tuple[Request, ...]:
    """The requests in a report that explains no request."""
    return tuple(_requests(report))


def _explained(reports: list[str], requests: list[Request]) -> list[Request]:
    """Add reports to the request that follows in the same message, if they explain it."""
    if not reports or not requests:
        return requests
    told = ". ".join(reports)
    if not explains(told, requests[0]):
        return [*reported(told), *requests]
    return [requests[0]._replace(whole=f"{told}. {requests[0].whole}"), *requests[1:]]


_BACK = re.compile(
    r"\b(?:it|its|it's|them|they|they're|this|that|these|those|him|her|he|she|one|again|why|someone|somebody)\b",
    re.IGNORECASE,
)


def explains(report: str, request: Request) -> bool:
    """Whether the report explains the request: the request has a pronoun or shares a word with it."""
    mine, theirs = keywords(report), keywords(request.whole)
    return bool(_BACK.search(request.whole)) or any(same_root(one, other) for one in mine for other in theirs)


_IS = (
    r"(?:(?:has|have|had|'s|'ve|is|are|was|were|isn't|aren't|wasn't|hasn't|haven't|doesn't|don't|didn't|won't|keeps?|say|says|said|went|goes|died|broke|"
    r"fell|failed|crashed|stopped|crashes|fails|sounds?|looks?|seems?|feels?|complains?|complained|reports?|reported)\b)"
)
_REPORT = re.compile(
    rf"^(?:(?:the|our|my|this|that|these|those|some|all|a|an) )?(?:[\w-]+ ){{0,3}}[\w-]+(?: |(?=')){_IS}",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"\b(?:needs?|needed|wants?|should|must|please|pls|could|would|has to|have to|ought|to be \w+|can you|can we|want\w*|supposed|due|let's)\b|\?",
    re.IGNORECASE,
)


_LONGEST_REPORT = 300  # characters


def _is_report(text: str) -> bool:
    """Whether the text only reports a fact: "the boiler has packed in", "users say search is slow"."""
    if len(text) > _LONGEST_REPORT or not _REPORT.match(text):
        return False
    if opens_with_verb(text) or _ASKS.search(text) or cut(text).cues:
        return False
    return not any(opens_with_verb(bare_request(part)) for part in re.split(r"[,;:]\s+|\s-\s+", text)[1:])


_NO_SUBJECT = re.compile(
    r"^(?:can't|cannot|can not|must not|mustn't|should not|shouldn't|won't|has to wait|needs to wait|must wait)\b",
    re.IGNORECASE,
)


def _with_subject(text: str) -> str:
    """Add a missing subject, "it", for the request before: "Can't go out until …"."""
    return f"it {text}" if _NO_SUBJECT.match(text) else text


def _joined(parts: list[str]) -> list[str]:
    """Join a question and the short request after it: "Why did sales fall? Dig into the numbers."."""
    joined: list[str] = []
    for part in parts:
        if joined and (done := _CHECKED.fullmatch(joined[-1])) and part.lower().startswith("then "):
            joined[-1] = f"once {done[1]}, {part[len('then ') :]}"
        elif joined and _goes_on(joined[-1], part):
            joined[-1] = f"{joined[-1]} {part}"
        else:
            joined.append(part)
    return joined


_SHORT = 5  # words
_CHECKED = re.compile(
    r"((?:[\w'-]+ ){1,4}(?:done|finished|ready|paid|sent|signed|booked|in|back|sorted|\w+ed))\?", re.IGNORECASE
)
_ONE = re.compile(r"\b(?:it|one|them|some)\b", re.IGNORECASE)


def _goes_on(before: str, part: str) -> bool:
    """Whether two sentences are one request: "A bouncy castle! Find one"."""
    if len(part.split()) > _SHORT or not opens_with_verb(bare_request(part)):
        return False
    thing = before.endswith("!") and len(before.split()) <= _SHORT and not opens_with_verb(bare_request(before))
    return before.endswith("?") or (thing and not is_small_talk(before) and bool(_ONE.search(part)))


_ABOUT_BEFORE = re.compile(
    r"^(?:it|they|this|that|these|those|he|she)(?:'s|'re|'ll)?\s+(?:is|are|was|were|should|must|can|could|will|would|has|have|needs?|"
    r"may|might|also|does|doesn't|shouldn't|mustn't|can't|won't|only|\w+ing)\b",
    re.IGNORECASE,
)
_NEWS = re.compile(
    r"^(?:i'm|i am|i'll|i will|i was|i've|i have|i think|i guess|i hope|i like|i love|we're|we are|we've|i can't wait|after \w+ i'll)\b"
    r"(?!.*\b(?:need|want|should|must|have to|would like)\b)"
    r"|^(?:the|our|my) (?:[\w-]+ ){1,4}(?:is|are|was) (?:in \w+ (?:days?|weeks?|months?|hours?)|on the \d+\w*|tomorrow|today|next \w+|on \w+day)$"
    r"|^(?:the|our|my) (?:deadline|budget|address|date|password|limit|due date|time|plan|maximum|minimum) (?:is|are|was)\b",
    re.IGNORECASE,
)


def _is_detail(text: str) -> bool:
    """Whether the text adds to the request before ("it must be short") or is news ("I'm away on Friday")."""
    if cut(text).cues and cut(text).statement:
        return False
    return bool(_ABOUT_BEFORE.match(text) or _NEWS.match(text))


_THEN = re.compile(r"(?:[,;]|\s-)?\s+(?:and\s+|but\s+)?(?:then|after that|afterwards),?\s+(?=\w)", re.IGNORECASE)
_SO = re.compile(r",\s+so,?\s+", re.IGNORECASE)
_SUBORDINATE = re.compile(r"^(?:once|when|after|as soon as|if|before|while|until|since)\b", re.IGNORECASE)


def _requests(text: str) -> Iterator[Request]:
    """The requests of a sentence. A conclusion ("…, so book them") is a request as well, or the only one."""
    why, so = ([*_SO.split(text, maxsplit=1), ""])[:2]
    if not so or not opens_with_verb(bare_request(so)):
        yield from _linked(text)
    elif cut(why).cues:
        yield from _linked(bare_request(why))
        yield from _linked(re.sub(r",? first$", "", bare_request(so)))
    else:
        yield from (one._replace(whole=text) for one in _linked(bare_request(so)))


def _linked(text: str) -> Iterator[Request]:
    """Split "…, then …" into requests, each of which waits for the one before."""
    verb = ""
    for number, part in enumerate(_chain(text)):
        own = bare_request(re.sub(r",? first$", "", part) if number == 0 and part != text else part)
        if number and verb and not opens_with_verb(own):
            own = f"{verb} {own}"
        verb = own.split()[0] if opens_with_verb(own) else verb
        yield from _with_cues(own, (Cue(LinkKind.BLOCKS, PREVIOUS, "then"),) if number else ())


def _chain(text: str) -> list[str]:
    return [text] if _SUBORDINATE.match(text) else _THEN.split(text)


def _with_cues(text: str, before: tuple[Cue, ...]) -> Iterator[Request]:
    action, cues, statement = cut(text)
    action = bare_request(action)
    parts = [action] if statement else _coordinated(action)
    if len(parts) == 1:
        yield Request(action, text, before + cues, statement)
        return
    for number, part in enumerate(parts):
        # Cues before the first action belong to it, cues after the last action to that one.
        behind = cues if number == len(parts) - 1 and text.lower().startswith(action[:12].lower()) else ()
        front = cues if number == 0 and not text.lower().startswith(action[:12].lower()) else ()
        yield Request(part, part, (before if number == 0 else ()) + front + behind)


_JOINT = re.compile(r",\s+(?:and\s+)?(?:also\s+)?|\s+and\s+(?:also\s+)?", re.IGNORECASE)
_DETERMINER = re.compile(
    r"^\S+(?:\s+(?:up|out|in|off|on|down|for|about|into|over|with|to|at))?\s+"
    r"(?:the|a|an|my|our|your|his|her|its|their|this|that|these|those|some|any|all|each|every|new|more|\d+|two|three|four|five|ten|[A-Z])",
)
_SAME_WORK = re.compile(
    r"^\S+(?:\s+(?:up|out|in|off|on|down|for|about|into|over|with|to|at))?\s+(?:it|them|him|her|me|us|what|whether|how|why|that they)\b"
    r"|^(?:tell|report|see|let|show|be|is|are|do|make sure|note|list what)\b",
    re.IGNORECASE,
)


def _coordinated(action: str) -> list[str]:
    """Split requests joined by commas and "and", except parts of the same work ("… and send it to me")."""
    parts: list[str] = []
    start = 0
    for joint in _JOINT.finditer(action):
        head, rest = action[start : joint.start()], action[joint.end() :]
        listed = "," in joint.group() or bool(parts) or _later_comma(rest)
        if _stands_alone(head) and _begins_new(rest, listed=listed):
            parts.append(head)
            start = joint.end()
    return [*parts, action[start:]]


def _later_comma(rest: str) -> bool:
    return any(opens_with_verb(piece) for piece in re.split(r",\s+", rest)[1:])


def _stands_alone(head: str) -> bool:
    return len(head.split()) > 1 and opens_with_verb(head)


def _begins_new(rest: str, *, listed: bool) -> bool:
    if len(rest.split()) < 2 or not opens_with_verb(rest) or _SAME_WORK.match(rest):  # noqa: PLR2004 - a verb and its object
        return False
    return listed or bool(_DETERMINER.match(rest))


_LONGEST = 100  # most characters of a title


_QUESTION = re.compile(
    r"(?:how|what|which|who|whose|where|when|why|is|are|was|were|do|does|did|has|have|can|could|should|shall|would|will|may)\b",
    re.IGNORECASE,
)


def title(request: str) -> str:
    """A title of one line."""
    text = request.strip(" .!,;:")
    if text.endswith("?") and opens_with_verb(text) and not _QUESTION.match(text):  # "Could you …?" is a polite request
        text = text.rstrip("? ")
    if len(text) > _LONGEST:
        text = text[:_LONGEST].rsplit(" ", 1)[0].rstrip(" .,;:") + "…"
    return text[:1].upper() + text[1:]


class Piece(NamedTuple):
    """A piece of work with all its messages. `details` add to the request, `why` explains it."""

    request: Request
    words: Words
    messages: tuple[str | int, ...]
    details: tuple[str, ...] = ()
    why: str = ""


class PieceCue(NamedTuple):
    """A cue, and the piece that it applies to."""

    piece: int
    cue: Cue


class Gathered(NamedTuple):
    pieces: tuple[Piece, ...]
    told: tuple[PieceCue, ...]
    idle: tuple[str | int, ...]


def asked_for(text: str) -> ParsedMessage:
    """Parse a message that is known to ask for work. Without an English request, the whole text is one."""
    said, quoted = parted(text)
    found = read(said)
    if not found.requests:
        found = ParsedMessage((Request(bare_request(said) or said or text, said or text),), ())
    asking = [one for one in found.requests if one.cues or _asks_by_itself(one.whole)] or list(found.requests[:1])
    more = [one.whole for one in found.requests if one not in asking]
    return ParsedMessage(tuple(asking), (*found.details, *more), quoted=quoted)


_ASKING = 0.5  # the model's share from which a sentence without an English verb is a separate request


@lru_cache(1000)
def _asks_by_itself(sentence: str) -> bool:
    if opens_with_verb(bare_request(sentence)):
        return True
    said = tokens(sentence)
    shares = first_reading({bucket(one) for one in patterns(said, sentence, Around())}, weights())
    return math.exp(shares[CLASSES.index(REQUEST)]) >= _ASKING


class Part(StrEnum):
    """The part of a message: it asks for work, adds to a request, or does neither."""

    REQUEST = "request"
    DETAIL = "detail"
    IDLE = "idle"


def gather(messages: Sequence[Message], parts: Sequence[Part]) -> Gathered:
    """Group messages into pieces of work.

    A detail belongs to the request that it explains, which follows, or else to the one before it. A quotation belongs to
    every task of the message before it, or else to those of the next request.
    """
    heap = _Heap()
    reads = [
        asked_for(message.text) if part is Part.REQUEST else None for message, part in zip(messages, parts, strict=True)
    ]
    following = [*reads[1:], None][: len(reads)]
    for message, part, found, follows in zip(messages, parts, reads, following, strict=True):
        if found is not None:
            heap.ask(message, found)
        elif part is Part.DETAIL and not parted(message.text).said:
            heap.quote(message)
        else:
            heap.tell(message, part, follows)
    heap.close()
    return Gathered(*_settled(heap.pieces), tuple(heap.idle))


class _Heap:
    """The pieces so far, with quotations and a report that wait for the next request."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.idle: list[str | int] = []
        self._why: tuple[str | int, str] | None = None
        self._quotations: list[Message] = []
        self._newest: int | None = None  # index of the first piece of the message before, if it has any

    def ask(self, message: Message, found: ParsedMessage) -> None:
        fresh = [Piece(one, words_of(one.action), (message.ref,), found.quoted) for one in found.requests]
        for quotation in self._quotations:
            fresh = [_with_details(one, quotation.ref, (quotation.text,)) for one in fresh]
        if self._why:
            fresh[0] = _with_details(fresh[0], self._why[0], (self._why[1],))._replace(why=self._why[1])
        if found.details:
            fresh[-1] = _with_details(fresh[-1], message.ref, found.details)
        self._why, self._quotations, self._newest = None, [], len(self.pieces)
        self.pieces += fresh

    def quote(self, message: Message) -> None:
        if self._newest is None:
            self._quotations.append(message)
        else:
            newest = self.pieces[self._newest :]
            self.pieces[self._newest :] = [_with_details(one, message.ref, (message.text,)) for one in newest]

    def tell(self, message: Message, part: Part, follows: ParsedMessage | None) -> None:
        ref, text = message.ref, message.text
        if self.pieces and takes_back(text):
            self.pieces.pop()
        explains_next = follows is not None and part is Part.DETAIL and explains(text, follows.requests[0])
        self._why = (ref, text.strip(" .")) if explains_next else None
        if part is Part.DETAIL and not explains_next and self.pieces:
            self.pieces[-1] = _with_details(self.pieces[-1], ref, (text,))
        elif not explains_next:
            self.idle.append(ref)
        self._newest = None

    def close(self) -> None:
        """Add the remaining quotations to the last request."""
        for quotation in self._quotations:
            if self.pieces:
                self.pieces[-1] = _with_details(self.pieces[-1], quotation.ref, (quotation.text,))
            else:
                self.idle.append(quotation.ref)


def _with_details(piece: Piece, message: str | int, details: tuple[str, ...]) -> Piece:
    spoken = tuple(dict.fromkeys((*piece.messages, message)))
    return piece._replace(messages=spoken, details=piece.details + details)


def _settled(pieces: list[Piece]) -> tuple[tuple[Piece, ...], tuple[PieceCue, ...]]:
    """Add each statement about an earlier request to that request."""
    subjects = {number: _subject(number, pieces) for number, piece in enumerate(pieces) if piece.request.statement}
    stays = [number for number in range(len(pieces)) if subjects.get(number) is None]
    place = {number: index for index, number in enumerate(stays)}
    kept = [pieces[number] for number in stays]
    told: list[PieceCue] = []
    for number, piece in enumerate(pieces):
        subject = subjects.get(number)
        home = place[number if subject is None else subject]
        if subject is not None:
            spoken = tuple(dict.fromkeys((*kept[home].messages, *piece.messages)))
            kept[home] = kept[home]._replace(messages=spoken)
        told += [PieceCue(home, cue) for cue in piece.request.cues]
    return tuple(kept), tuple(told)


def _subject(number: int, pieces: list[Piece]) -> int | None:
    """The piece that a statement is about. It differs from the piece that the statement waits for."""
    stems = [piece.words.stems for piece in pieces]
    statements = {other for other, piece in enumerate(pieces) if piece.request.statement}
    request = pieces[number].request
    awaited = {one for cue in request.cues for one in resolve(cue.about, stems, number, statements).pieces}
    meant = resolve(request.action, stems, number, statements | awaited).pieces
    return meant[0] if meant else None
