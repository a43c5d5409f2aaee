"""What a person says to steer, in plain English, told apart from what is merely to be done.

A command is the whole message: every form is anchored at both ends, and what stands for a task has to look like the
name of one. "Do research before strategy" is a command; "do tomorrow before noon" and "don't sync notion yet" are
messages. Where the words alone cannot tell ("the menu needs salt", "cancel my flight"), the command is not `sure`: it
counts only if the tasks it names are there. `recognise` puts both together.
"""

import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import NamedTuple

from dibs.chat.command_forms import AFTER_IT, BEFORE_IT, Doubt, forms
from dibs.chat.language.words import straight
from dibs.chat.naming import bare_name, could_name_a_task, names_work


class Name(StrEnum):
    PRIORITY = "priority"
    DEFER = "defer"
    BEFORE = "before"
    AFTER = "after"
    INDEPENDENT = "independent"
    FOCUS = "focus"
    PAUSE = "pause"
    RESUME = "resume"
    PLAN = "plan"
    WHY = "why"
    CANCEL = "cancel"
    UNDO = "undo"
    SYNC = "sync"


EVERYTHING = "everything"


class Command(NamedTuple):
    """`targets` are the words that stand for tasks; for `before` the earlier comes first, for `after` the later."""

    name: Name
    targets: tuple[str, ...] = ()
    sure: bool = True


def recognise(message: str, known: Callable[[str], bool]) -> Command | None:
    """The command that a message is, or None. `known` tells whether a target fits a task that there is."""
    readings = list(_readings(message))
    surely = (command for command in readings if command.sure)
    return next(surely, None) or next((one for one in readings if all(map(known, one.targets))), None)


def parse(message: str) -> Command | None:
    """The command that the words alone leave no doubt about, or None."""
    return recognise(message, lambda _: False)


_LONGEST = 240  # characters: nobody steers in paragraphs


def _readings(message: str) -> Iterator[Command]:
    """What the message can mean, the likelier first."""
    if len(message) > _LONGEST or "\n" in message.strip():
        return
    text, asks = _spoken(message)
    for name, pattern, doubt in forms():
        if asks and name not in _ASKED:
            continue
        if found := pattern.fullmatch(text):
            spoken = [part.strip() for _, part in sorted(found.groupdict().items())]
            targets = tuple(map(bare_name, spoken)) or _IMPLIED.get(name, ())
            if all(map(could_name_a_task, targets)):
                yield Command(Name(name), tuple(map(_or_everything, targets)), _sure(spoken, doubt))


_IMPLIED: dict[str, tuple[str, ...]] = {Name.RESUME: (EVERYTHING,)}
_ASKED = frozenset({Name.PLAN, Name.WHY})
_EVERYTHING = frozenset(
    {"everything", "all", "all tasks", "everything else", "all of them", "them all", "all the tasks"}
)


def _or_everything(target: str) -> str:
    return EVERYTHING if target.lower() in _EVERYTHING else target


_BEFORE_IT = re.compile(rf"^(?:{'|'.join(map(re.escape, BEFORE_IT))})[,!]? +(?=\S)", re.IGNORECASE)
_AFTER_IT = re.compile(rf",? +(?:{'|'.join(map(re.escape, AFTER_IT))})$", re.IGNORECASE)
_POLITE = re.compile(r"^(?:please |ok,? |hey,? )*(?:can|could|would|will) you ", re.IGNORECASE)
_ENDS = " .!?,;\"'()*"
_IS = re.compile(
    r"(?<=\w)'s(?= (?:(?:now|really|very|so|still|super) )?(?:urgent|stuck|blocked|waiting|late)\b)", re.IGNORECASE
)


def _spoken(message: str) -> tuple[str, bool]:
    """The words without what surrounds them, a blank before each, marks as words; and whether it is a question."""
    text = straight(message)
    asks = text.rstrip(_ENDS.replace("?", "")).endswith("?") and not _POLITE.match(text)
    before = ""
    while before != text:
        before = text
        text = _AFTER_IT.sub("", _BEFORE_IT.sub("", text.strip(_ENDS)))
    text = _IS.sub(" is", text.strip(_ENDS))
    return " " + " ".join(re.sub(r"([,;:])", r" \1 ", text).split()), asks


_SOMEBODYS = ("my ", "our ", "your ", "his ", "her ", "their ", "a ", "an ", "some ")
_SOMEWHERE = re.compile(r" (?:in|on|into|onto|at|off|to|over|by|until) ", re.IGNORECASE)


def _sure(spoken: list[str], doubt: Doubt) -> bool:
    """Whether the words can hardly be about anything but tasks: what is somebody's own is of this world."""
    if doubt is Doubt.UNLESS_KNOWN or any(part.lower().startswith(_SOMEBODYS) for part in spoken):
        return False
    if doubt is Doubt.IF_A_PLACE:
        return not any(map(_SOMEWHERE.search, map(bare_name, spoken)))
    if doubt is Doubt.UNLESS_WORK:
        return all(map(names_work, spoken))
    return True
