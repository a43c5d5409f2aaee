"""The forms of the commands, as data. X and Y stand for tasks, (a|b) for one of these, [a|b] for one of these or
nothing.

Punctuation inside is a word of its own; politeness around and punctuation at the end are taken off before.

People also say these words about the world. So some forms begin with a doubt: '?' is a command only if the tasks it
names are there; '~' also if its words plainly name work; '/' unless a place is spoken of.
"""

import re
from enum import StrEnum
from functools import cache
from typing import NamedTuple

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
    "cancel": ("/ (cancel|scrap|abort|call off|bin) X", "/ drop X", "(forget about|never mind|nevermind) X"),
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

# Around a command, and no part of it.
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
    """The pattern is for a text that has a blank before every word."""
    doubt = Doubt(written[0]) if written[0] in "?~/" else Doubt.NONE
    parts = _PART.finditer(written.removeprefix(doubt).lstrip())
    return Form(name, re.compile("".join(_piece(*part.groups()) for part in parts), re.IGNORECASE), doubt)


def _piece(optional: str | None, group: str | None, word: str | None) -> str:
    if word in {"X", "Y"}:
        return f"(?P<{word}>(?: [^ ]+)+?)"
    either = "|".join(re.escape(choice) for choice in (optional or group or word or "").split("|"))
    return f"(?: (?:{either}))?" if optional else f" (?:{either})"
