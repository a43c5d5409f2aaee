"""What a message asks for: none, one or several pieces of work, each with the wording that ties it to others."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from dibs.chat.cues import PREVIOUS, Cue, cut
from dibs.chat.deliverable import opens_with_verb
from dibs.chat.sentences import sentences
from dibs.chat.small_talk import is_small_talk
from dibs.core.task import LinkKind


class Request(NamedTuple):
    """`action` is the work without the cues, `whole` all that was said of it. A statement tells about work spoken of."""

    action: str
    whole: str
    cues: tuple[Cue, ...] = ()
    statement: bool = False


class Read(NamedTuple):
    """A message, read. `details` say more about the work that was spoken of before."""

    requests: tuple[Request, ...]
    details: tuple[str, ...]


def read(message: str) -> Read:
    found: list[Request] = []
    details: list[str] = []
    for sentence in _joined(sentences(message)):
        bare = bare_request(sentence)
        if is_small_talk(sentence) or is_small_talk(bare):
            continue
        if _is_detail(bare):
            details.append(sentence)
        else:
            found += _requests(bare)
    return Read(tuple(found), tuple(details))


_LEAD = re.compile(
    r"^(?:please|pls|also|and|so|ok(?:ay)?|hi|hey|hello|well|oh|btw|by the way|finally|lastly|additionally|in addition|besides|"
    r"plus|first(?:ly)?(?: of all)?|second(?:ly)?|third(?:ly)?|now|maybe|actually|kindly|just|(?:can|could|would|will) you|"
    r"(?:can|could) we|i need you to|(?:i|we) (?:really |also )?(?:need|want|have) to|i want you to|i would like you to|"
    r"(?:i'd|we'd|i would|we would) like (?:you )?to|(?:we|you|i) (?:should|must)|you (?:need|have) to|let's|lets|let us|"
    r"(?:don't|do not) forget to|remember to|be sure to|make sure to|help me(?: to)?|go ahead and|todo|to do|task|urgent|"
    r"it would be (?:great|nice) if you could|would you mind|one more thing|hi (?:team|all|there|everyone))[,:!]?\s+(?=\S)",
    re.IGNORECASE,
)
_TAIL = re.compile(r",?\s+(?:please|pls|thanks|thank you|thx|ok\?|okay\?|would you\?|will you\?)[.!]*$", re.IGNORECASE)


def bare_request(sentence: str) -> str:
    """Without what only makes it polite, and without the full stop."""
    before, text = "", sentence.strip()
    while before != text:
        before = text
        text = _TAIL.sub("", _LEAD.sub("", text)).strip().rstrip(".!,;:")
    return text


def _joined(parts: list[str]) -> list[str]:
    """A question and the short request that follows it are one: "Why did sales fall? Dig into the numbers."."""
    joined: list[str] = []
    for part in parts:
        if joined and joined[-1].endswith("?") and len(part.split()) <= _SHORT and opens_with_verb(bare_request(part)):
            joined[-1] = f"{joined[-1]} {part}"
        else:
            joined.append(part)
    return joined


_SHORT = 5  # words

_ABOUT_BEFORE = re.compile(
    r"^(?:it|they|this|that|these|those|he|she)(?:'s|'re|'ll)?\s+(?:is|are|was|were|should|must|can|could|will|would|has|have|needs?|"
    r"may|might|also|does|doesn't|shouldn't|mustn't|can't|won't|only|\w+ing)\b",
    re.IGNORECASE,
)
_NEWS = re.compile(
    r"^(?:i'm|i am|i'll|i will|i was|i've|i have|i think|i guess|i hope|i like|i love|we're|we are|we've|i can't wait|after \w+ i'll)\b"
    r"(?!.*\b(?:need|want|should|must|have to|would like)\b)"
    r"|^(?:the|our|my) (?:deadline|budget|address|date|password|limit|due date|time|plan|maximum|minimum) (?:is|are|was)\b",
    re.IGNORECASE,
)


def _is_detail(text: str) -> bool:
    """Told, not asked for: about the work before ("it must be short"), or about the world ("I'm away on Friday")."""
    if cut(text).cues and cut(text).statement:
        return False
    return bool(_ABOUT_BEFORE.match(text) or _NEWS.match(text))


_THEN = re.compile(r"(?:[,;]|\s-)?\s+(?:and\s+|but\s+)?(?:then|after that|afterwards),?\s+(?=\w)", re.IGNORECASE)
_SUBORDINATE = re.compile(r"^(?:once|when|after|as soon as|if|before|while|until|since)\b", re.IGNORECASE)


def _requests(text: str) -> Iterator[Request]:
    """A chain of "…, then …" is a request for each link of it, and each waits for the one before."""
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
        # What stands in front belongs to the first, what stands behind to the last.
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
    """Several requests joined by commas and "and". What goes on about the same thing ("… and send it to me") stays with it."""
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


_LONGEST = 100  # characters of a title


def title(request: str) -> str:
    """One line that says what it is."""
    text = request.strip(" .!,;:")
    if len(text) > _LONGEST:
        text = text[:_LONGEST].rsplit(" ", 1)[0].rstrip(" .,;:") + "…"
    return text[:1].upper() + text[1:]
