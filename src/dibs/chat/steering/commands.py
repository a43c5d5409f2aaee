"""Commands in plain English: their forms, and the rules that distinguish them from requests.

In a form, X and Y are tasks, (a|b) is one of these, [a|b] is one of these or nothing. Punctuation inside is a separate
word; polite words around a command and punctuation at its end are removed before.

A command is the whole message: every form is anchored at both ends, and X and Y must look like the name of a task. "Do
research before strategy" is a command; "do tomorrow before noon" and "don't sync notion yet" are messages. People also
use these words about other things ("the menu needs salt", "cancel my flight"). So some forms begin with a doubt: '?' is
a command only if the tasks it names exist; '~' also if its words plainly name work; '/' unless it mentions a place.
Such a command is not `sure`. `recognise` decides with the tasks that exist.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from dibs.chat.language.words import LITTLE, straight, words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FORMS: dict[str, tuple[str, ...]] = {
    "priority": (
        "priority (:|-) X [first]",
        "priority X first",
        "(prioritise|prioritize|expedite) X [first|now]",
        "/ put X first",
        "/ (put|move|bump|push|bring) X [up] (to|at|on) [the] [very] (top|front) [of the list|of the queue|of the line]",
        "(make|treat) X [as] [a|the|our|my] [top|highest|first|high|number one] priority",
        "(make|mark|treat) X [as] urgent",
        "? (start|begin) with X",
        "(do|finish|handle) X first",
        "X (is|are|has become|just became|became) [now] [really|very|super|so|most|more|extremely] urgent [now]",
        "X (is|are|has) [now] [the|our|my|a] (top|highest|first|number one) priority [now]",
        "X (comes|goes|should come|must come) first",
        "? X first",
    ),
    "defer": (
        "X can wait (till|until) [whenever|later|further notice|we have time|i'm back|next month|next year|the new year]",
        "/ park X [for now|for the moment|for later|until later]",
        "(leave|keep) X for later",
        "X (is not|isn't|are not|aren't) a priority [now|right now|at the moment|any more|anymore]",
        "X can wait [until later|till later|for now|a bit|a while|a little|a few days|until tomorrow|until next week]",
        "X (is not|isn't|are not|aren't) [that|so|very|really] urgent [now|right now|any more|anymore]",
        "X (is|are|has) [a|only a|only|now] (low|lower|lowest) priority",
        "(deprioritise|deprioritize|de-prioritise|de-prioritize) X",
        "/ (postpone|defer) X",
        "/ (put|do|leave|move) X (last|to the end|to the bottom|for the end) [of the list|of the queue]",
    ),
    "before": (
        "(do|finish|complete|handle|tackle|start) X before [doing|starting|you do|you start|we do|we start] Y",
        "X [should|must|has to|have to|needs to|need to] (come|comes|go|goes|happen|happens|is|are) before Y",
        "X (needs|need) (doing|finishing|to happen|to come) before Y",
        "X (should|must|has to|have to|needs to|need to) be (done|finished|completed|ready) before Y",
        "~ X before Y",
    ),
    "after": (
        "(do|handle|tackle|start) X [only] (after|once|when) Y [is done|is finished|is complete|is ready|are done]",
        "X [should|must|has to|have to|needs to|need to] (come|comes|go|goes|happen|happens|is|are) after Y",
        "X (depends|depend|relies|rely|hinges) (on|upon) Y",
        "X (is|are) (blocked by|gated by|held up by|blocked on) Y",
        "X (has to|have to|must|should|needs to|need to) wait (for|on) Y [first|to be done|to finish|to be finished]",
        "X (needs|need|requires|require) Y [to be done|to be finished|done] first",
        "X (needs|need|requires|require) the Y",
        "~ X (needs|need|requires|require) Y [to be done|to be finished]",
        "~ X after Y",
    ),
    "independent": (
        "(these|those|they|all) (are|'re) [all|both] [completely|totally|fully|really] independent [of each other]",
        "(they're|these're) [all|both] [completely|totally|fully|really] independent [of each other|from each other]",
        "[all] [of] (these|those|them|the tasks|these tasks|those tasks|all tasks) are independent [of each other]",
        "[all] [of] (these|those|they|the tasks|these tasks|those tasks) can [all|both] (run|go|happen|be done|be run)"
        " (in parallel|at the same time|side by side|independently)",
        "none of (these|them|those|the tasks) (depend|depends) on (each other|one another|anything|another)",
        "(these|they|those) (don't|do not) depend on (each other|one another|anything)",
        "X and Y are [both] [completely|totally|fully|really] independent [of each other|of one another]",
        "X is independent (of|from) Y",
        "X and Y can [both] (run|go|happen|be done|be run) (in parallel|at the same time|side by side|independently)",
    ),
    "focus": (
        "(focus|concentrate) [only|just|first|solely] on X [,|;|-] [and] (leave|drop|pause|forget|ignore|stop) [the|all|all the]"
        " (other|others|rest|everything else|all else|other ones|other tasks|other things)",
        "concentrate [only|just|first|solely] on X [only|for now|now]",
        "[just] focus [only|just|first|solely] on X [,|;|-] [and|then] pause [the|all|all the]"
        " (other|others|rest|everything else|all else|other ones|other tasks|other things)",
        "[just] focus [only|just|first|solely] on X [only|for now|now]",
        "pause everything [else] (but|except|besides|except for) X",
    ),
    "pause": ("pause X", "put X on (hold|ice)"),
    "resume": (
        "(resume|unpause|un-pause) X",
        "(resume|unpause)",
        "(continue|carry on|go on) with X",
        "take X off hold",
    ),
    "plan": (
        "where (are we|do we stand) [at|with everything|now|right now]",
        "(what's|whats|what is) (next|next on the plan|next on the list|up next|on the plan|on the list)",
        "how (are we|does it look) (doing|so far)",
        "(what's|whats|what is) (the|our|your|my) [current|new|latest] plan"
        " [now|then|so far|right now|at the moment|today|for today|for now|for tomorrow|for this week]",
        "(show|tell|give|explain) [me|us|to me] [the|our|your|my] [current|new|latest] plan [again|now]",
        "[the|current] plan",
    ),
    "why": (
        "(why is|why's|why are) X [still|always] (waiting|blocked|stuck|on hold|paused|delayed|held up) [now]",
        "(why is|why's|why are) X [still] not (started|done|running|ready|moving|finished|being worked on) [yet]",
        "why (hasn't|haven't|has not|have not) X [been] (started|begun|moved|run|done|finished) [yet]",
        "why (isn't|aren't) X (started|running|done|ready|moving|finished|being worked on|in progress) [yet]",
        "(what's|whats|what is|what are) X [still] (waiting for|waiting on|blocked by|blocked on)",
        "(what's|whats|what is) (blocking|holding up|delaying) X",
    ),
    "accept": ("? (accept|approve|take up) X", "? X is (accepted|approved)"),
    "cancel": (
        "/ (cancel|scrap|abort|call off|bin) X",
        "/ drop X",
        "(forget about|never mind|nevermind) X",
        "? (reject|decline) X",
    ),
    "undo": (
        "(undo|revert) [that|it|this|last|the last|the last one|the last change|the last command|the last thing|my last change]",
        "take (that|it) back",
    ),
    "sync": (
        "(sync|synchronise|synchronize|resync) [from|with|w/] notion [now|again]",
        "notion (sync|resync) [now|again]",
        "(pull|update|refresh|fetch|import) [tasks|changes|updates|everything|the tasks|the changes|the latest|the latest changes] from notion [now|again]",
    ),
}

# Polite words around a command.
BEFORE_IT = (
    "please", "pls", "oops", "whoops", "sorry", "hey", "hi", "ok", "okay", "so", "and", "now", "actually", "well", "right", "alright", "kindly", "dibs",
    "can you", "could you", "would you", "will you", "i want you to", "i'd like you to", "you should", "let's", "lets",
)  # fmt: skip
AFTER_IT = (
    "would you",
    "will you",
    "mate",
    "then",
    "ta",
    "please",
    "pls",
    "thanks",
    "thank you",
    "for me",
    "asap",
    "guys",
    "team",
    "everyone",
    "ok",
    "okay",
)

_PART = re.compile(r"\[([^]]*)\]|\(([^)]*)\)|(\S+)")


class Doubt(StrEnum):
    NONE = ""
    UNLESS_KNOWN = "?"
    UNLESS_WORK = "~"
    IF_A_PLACE = "/"


class Form(NamedTuple):
    name: str
    pattern: re.Pattern[str]
    doubt: Doubt


@cache
def forms() -> tuple[Form, ...]:
    return tuple(_form(name, written) for name, several in FORMS.items() for written in several)


def _form(name: str, written: str) -> Form:
    """Compile a form. Texts have a blank before every word."""
    doubt = Doubt(written[0]) if written[0] in "?~/" else Doubt.NONE
    parts = _PART.finditer(written.removeprefix(doubt).lstrip())
    return Form(name, re.compile("".join(_piece(*part.groups()) for part in parts), re.IGNORECASE), doubt)


def _piece(optional: str | None, group: str | None, word: str | None) -> str:
    if word in {"X", "Y"}:
        return f"(?P<{word}>(?: [^ ]+)+?)"
    either = "|".join(re.escape(choice) for choice in (optional or group or word or "").split("|"))
    return f"(?: (?:{either}))?" if optional else f" (?:{either})"


_LONGEST_NAME = 14  # words

# Pronouns, and words that begin a sentence but never a name.
_NO_BEGINNING = frozenset(
    """none neither i me he him she we us you they it that this there nothing nobody somebody someone anybody everyone who what how why when
    where if whether and or but not no to is are was were am do does did can could should would will shall must may might
    don't doesn't didn't can't cannot won't isn't aren't more less much many few several enough better another in at on
    these those them""".split()
)
# Verbs that occur in sentences, and never in a name.
_NO_PART = frozenset(
    """is are was were am isn't aren't wasn't has have had hasn't haven't will would won't can can't could should shall must
    does doesn't did didn't do don't not never i we he she they you it's that's comes come arrives arrive closes opens
    leaves leave gets goes says said because although unless until be been being""".split()
)
_TIMES = frozenset(
    """today tomorrow tonight yesterday noon midnight morning afternoon evening night weekend week weeks month months year
    years day days hour hours minute minutes quarter monday tuesday wednesday thursday friday saturday sunday january
    february march april may june july august september october november december spring summer autumn fall winter
    christmas easter breakfast lunch dinner supper bed bedtime deadline departure holidays holiday vacation work school sunrise sunset dawn dusk dark long now later am pm
    o'clock end next early late new two three four five six seven eight nine ten""".split()
)
_CLOCK = re.compile(r"\d{1,4}(?:[:.]\d\d)?(?:am|pm|h)?|\d+(?:st|nd|rd|th)")
_MARKS = re.compile(r"[,;:?!]|\.\s")
_TASK = re.compile(r"^(?:the )?(?:task|job|work)s? (?:to|of|about|for|on|called|named)(?: the)? ", re.IGNORECASE)
_ARTICLE = re.compile(r"^(?:the|this|that|these|those) (?=\S)", re.IGNORECASE)


def bare_name(target: str) -> str:
    """The words that name a task, without quotes, article or 'the task to'."""
    name = " ".join(target.split()).strip(" \"'.")
    return _ARTICLE.sub("", _TASK.sub("", name)).strip(" \"'")


def could_name_a_task(name: str) -> bool:
    said = words(name)
    if not 0 < len(said) <= _LONGEST_NAME or _MARKS.search(name):
        return False
    return said[0] not in _NO_BEGINNING and not _NO_PART & set(said) and not _is_a_time(said)


def _is_a_time(said: list[str]) -> bool:
    telling = [word for word in said if word not in LITTLE]
    return bool(telling) and all(word in _TIMES or _CLOCK.fullmatch(word) for word in telling)


_WORK_ENDINGS = ("ing", "ment", "ments", "tion", "tions", "sion", "sions", "ance", "ysis", "roval", "ewal", "eview")
_WORK_NOUNS = frozenset(
    """research strategy report reports design audit audits test tests launch release survey plan budget draft check
    checks interview interviews demo rollout rewrite migration backup backups upgrade update deploy install setup build
    proposal contract payroll invoice invoices study pilot campaign freeze notes docs documentation review fix merge
    refactor import export cleanup repair inspection rehearsal shoot order search list wireframes prototype mockups
    announcement newsletter post article paper thesis chapter slides video training workshop delivery purchase""".split()
)


# After a verb as first word: "write the report" is a request, not a name.
_DETERMINERS = frozenset("the a an my our your his her their this that these those all some any".split())


def names_work(name: str) -> bool:
    """Whether the name ends in a noun for work: deployment, legal review, the interviews."""
    said = words(name)
    if not said or (len(said) > 1 and said[1] in _DETERMINERS):
        return False
    return said[-1] in _WORK_NOUNS or said[-1].endswith(_WORK_ENDINGS)


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
    ACCEPT = "accept"
    CANCEL = "cancel"
    UNDO = "undo"
    SYNC = "sync"
    EDIT = "edit"
    DONE = "done"


EVERYTHING = "everything"


class Command(NamedTuple):
    """`targets` name the tasks: the earlier one first for `before`, the later one first for `after`."""

    name: Name
    targets: tuple[str, ...] = ()
    sure: bool = True


def recognise(message: str, known: Callable[[str], bool]) -> Command | None:
    """The command of a message, or None. `known` decides whether a target matches an existing task."""
    readings = list(_readings(message))
    surely = (command for command in readings if command.sure)
    return next(surely, None) or next((one for one in readings if all(map(known, one.targets))), None)


def parse(message: str) -> Command | None:
    """The command that is certain by its words alone, or None."""
    return recognise(message, lambda _: False)


_LONGEST_COMMAND = 240  # characters; commands are short


def _readings(message: str) -> Iterator[Command]:
    """The possible readings of the message, likelier first."""
    if len(message) > _LONGEST_COMMAND or "\n" in message.strip():
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
    """The text without polite words, a blank before each word and mark; and whether it is a question."""
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
    """Whether the words name tasks. "My flight" and "a form" do not."""
    if doubt is Doubt.UNLESS_KNOWN or any(part.lower().startswith(_SOMEBODYS) for part in spoken):
        return False
    if doubt is Doubt.IF_A_PLACE:
        return not any(map(_SOMEWHERE.search, map(bare_name, spoken)))
    if doubt is Doubt.UNLESS_WORK:
        return all(map(names_work, spoken))
    return True
