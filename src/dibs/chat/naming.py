"""What can be the name of a task in a sentence about tasks: "the landing page" can, "tomorrow", "it" and "you leave"
cannot."""

from __future__ import annotations

import re

from dibs.chat.language.words import LITTLE, words

_LONGEST = 14  # words

# A name does not begin with these: they begin sentences, or stand for something else.
_NO_BEGINNING = frozenset(
    """none neither i me he him she we us you they it that this there nothing nobody somebody someone anybody everyone who what how why when
    where if whether and or but not no to is are was were am do does did can could should would will shall must may might
    don't doesn't didn't can't cannot won't isn't aren't more less much many few several enough better another in at on
    these those them""".split()
)
# A name has no verb of a sentence in it.
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
    """The words that a task is called by, without quotes, article or 'the task to'."""
    name = " ".join(target.split()).strip(" \"'.")
    return _ARTICLE.sub("", _TASK.sub("", name)).strip(" \"'")


def could_name_a_task(name: str) -> bool:
    said = words(name)
    if not 0 < len(said) <= _LONGEST or _MARKS.search(name):
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


# After a first word that is a verb: "write the report" asks for work, it does not name any.
_DETERMINERS = frozenset("the a an my our your his her their this that these those all some any".split())


def names_work(name: str) -> bool:
    """A noun for something that is done, at the head of the name: deployment, legal review, the interviews."""
    said = words(name)
    if not said or (len(said) > 1 and said[1] in _DETERMINERS):
        return False
    return said[-1] in _WORK_NOUNS or said[-1].endswith(_WORK_ENDINGS)
