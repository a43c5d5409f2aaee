"""Cues: the wording that ties one piece of work to another ("once the upgrade is done, …", "… based on the survey",
"meanwhile, …"), and the tasks that a cue refers to.

`cut` removes the cues from a sentence and says for each which kind of link it is, in which direction, and what it
refers to. `resolve` finds the tasks: "that", "both", "the survey", "the venue is booked". A cue that refers to no known
task, such as "before noon", makes no link.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from dibs.chat.language.words import are_synonyms, keywords, same_root, stem, words
from dibs.core.task import LinkKind

PREVIOUS = ""  # what a cue speaks about, where it means what was said just before


class Cue(NamedTuple):
    """`waits`: the sentence's own work comes after what the cue speaks about; else before it."""

    kind: LinkKind
    about: str
    said: str
    waits: bool = True


class Cut(NamedTuple):
    """A sentence without its cues. `statement`: it tells about work that was spoken of, rather than asking for some."""

    action: str
    cues: tuple[Cue, ...] = ()
    statement: bool = False


_DONE = (
    r"(?: (?:is|are|was|were|has been|have been|gets|'s|has|have))?(?: all)?"
    r" (?:done|finished|complete|completed|ready|over|through|sorted|fixed|in place|out of the way)"
)
_THAT = r"(?:that|this|it|they|these|those|both|all(?: of (?:it|them|that))?|everything)"
_WHEN = (
    r"(?:(?:but )?(?:obviously )?only (?:once|after|when|if)|(?:straight|right|immediately|directly|shortly|soon) (?:after|once)|once|as soon as|"
    r"the moment|after|when|following|upon|provided(?: that)?|assuming(?: that)?|subject to|(?:but )?not (?:before|until|till))"
)
_FROM = (
    r"(?:based (?:up)?on|on the basis of|building on|drawing on|informed by|inspired by|according to|(?:off|on) the back of|on the strength of|going (?:by|off|on)|leaning on|relying on|judging (?:by|from)|by reference to|in response to|depending on|in line with|guided by|"
    r"with the help of|making use of|using|given|in (?:the )?light of)"
)
_RESULT = (
    r"(?:that|this|these|those|the|both|its|their|your|our|all) ?(?:[\w' -]* )?(?:results?|findings?|outcomes?|feedback|answers?|data|"
    r"numbers|figures|output|insights?|notes|measurements?|counts?|logs?|interviews?|survey|analysis|research|comparison|breakdown|"
    r"testimonials|sequences|report|review|summary|map|list|receipts|statistics|evidence|responses|material|sources)"
)
_BESIDE = (
    r"(?:meanwhile|in the meantime|in parallel(?: (?:to|with) (?:that|this|it))?|at the same time|simultaneously|separately|"
    r"independently(?: of (?:that|this|it|the rest|the others?|everything else))?|unrelated(?:ly)?(?: to that)?|on the side|"
    r"regardless of (?:that|this|it)|alongside (?:that|this)|in the meanwhile|while (?:that|this|it)(?:'s| is) (?:going on|happening|running|in progress|under way))"
)
_DONE_BY_NOW = (
    r"(?:\w+ed|drawn|shown|sworn|torn|sewn|done|built|sent|paid|bought|made|written|chosen|sold|set|cut|put|found|held|met|kept|taken|given|frozen|laid|hung|dealt with|"
    r"ready|back|in place|in hand|out of the way|complete|over)"
)
_KNOWN = (
    r"what(?:ever)? (?:you|we|they|he|she|it|comes?|came|turns?|is|was|the|their|our|everyone|people|customers)\b.*"
)
_APART = (
    r"(?:that|this|it|which|those|these|they)(?:'s|'re| is| are| has| can be done)? (?:all )?(?:independent(?:ly)?|unrelated|separate|nothing to do with|"
    r"in parallel)(?: (?:of|to|from|with))?(?: (?:the )?(?:rest|others?|other ones|other tasks|that|everything else|it))?"
)

# Each form names what it finds: main is the work asked for, about what it is tied to.
_FORMS: tuple[tuple[LinkKind, bool, bool, str], ...] = (
    # kind, waits, statement, pattern: statements first, for they are the most particular
    (LinkKind.BLOCKS, True, True,
     r"(?P<main>.+?) (?:will )?(?:has|have|needs?|must|should|will have|ought)(?: to)? wait (?:until|till|for|on) (?P<about>.+)"),
    (LinkKind.BLOCKS, True, True,
     r"(?:do not|don't|never|please don't|let's not|we (?:can't|cannot|shouldn't|must not|mustn't|should not)|you (?:can't|shouldn't)|"
     r"i (?:can't|don't want to)|hold off (?:on|with)|wait (?:with|on)|hold|stop|no) (?P<main>.+?) (?:until|before|unless|till)"
     r"(?: after)? (?P<about>.+)"),
    (LinkKind.BLOCKS, True, True,
     r"(?P<main>.+?) (?:can't|cannot|can not|shouldn't|should not|must not|mustn't|won't|may not|is not to|isn't to|are not to)"
     r" (?:be \w+(?: \w+)?|start|begin|happen|go (?:out|live|ahead)|proceed|take place|run)(?: \w+)? (?:until|before|unless|till|prior to)"
     r" (?P<about>.+)"),
    (LinkKind.BLOCKS, True, True,
     r"(?P<main>.+?) (?:can|may|should|must|will|is to)(?: only)? (?:be \w+(?: \w+)?|start|begin|happen|go (?:out|live|ahead)|proceed|run)"
     r"(?: only)? (?:once|after|when|as soon as) (?P<about>.+)"),
    (LinkKind.BLOCKS, True, True,
     r"(?P<main>(?:the|our|my|no|all|his|her|their|its) .+?) (?:goes?|gets?|happens?|starts?|begins?|runs?|opens?|comes?|is|are)(?: \w+){0,2}?"
     r",? (?:but )?(?:only )?(?:once|after|when|as soon as|if) (?P<about>.+)"),
    (LinkKind.BLOCKS, True, True, r"(?P<main>.+?) (?:depends?|hinges|relies|rely|is dependent|are dependent) (?:up)?on (?P<about>.+)"),
    (LinkKind.BLOCKS, True, True, r"(?P<main>.+?) (?:is|are) (?:blocked|held up|gated) (?:by|on|until) (?P<about>.+)"),
    (LinkKind.BLOCKS, True, True, r"(?P<main>.+?) (?:needs?|requires?) (?P<about>.+?) first"),
    (LinkKind.BLOCKS, True, True, r"(?P<main>.+?) (?:is|are) (?:still )?waiting (?:for|on) (?P<about>.+)"),
    (LinkKind.BLOCKS, True, True, r"(?:we|i|you) need (?P<about>.+?) before (?:we|i|you) (?:can |could )?(?P<main>.+)"),
    (LinkKind.BLOCKS, True, True, r"(?P<main>.+?) (?:comes?|goes?|happens?) after (?P<about>.+)"),
    (LinkKind.BLOCKS, False, True, r"(?P<main>.+?) (?:comes?|goes?|happens?|has to (?:come|happen)|must (?:come|happen)) before (?P<about>.+)"),
    (LinkKind.BLOCKS, False, True,
     r"(?P<main>.+?) (?:has to|have to|must|should|needs to|need to) be (?:done|finished|completed|ready|there|in place) before (?P<about>.+)"),
    # what stands before the work
    (LinkKind.BLOCKS, True, False, r"(?:if so|if (?:it|they|that|he|she) (?:is|are|does|do|did|was)|in that case)[,:]? (?:then |please )*(?P<main>.+)"),
    (LinkKind.PARALLEL_OK, True, False,
     r"(?:separately from|regardless of|irrespective of|independent(?:ly)? (?:of|from)|alongside|in parallel (?:to|with)|whatever happens with)"
     r" (?P<about>[^,]+), (?:please )?(?P<main>.+)"),
    (LinkKind.BLOCKS, True, False, rf"with (?P<about>(?:the|that|this|both|all|our|my|his|her|their)\b[^,]* {_DONE_BY_NOW}), (?:please )?(?P<main>.+)"),
    (LinkKind.BLOCKS, True, False, r"only (?P<main>\w+ .+?) (?:when|once|after|if) (?P<about>.+)"),
    (LinkKind.BLOCKS, True, False,
     rf"(?:after(?:wards?| (?:that|this|it|which))|(?:only )?then|next(?: step)?|subsequently|thereafter|later|following (?:that|this)|"
     rf"when you(?:'re| are) done(?: with (?:that|it|this))?|{_WHEN} (?P<about>{_THAT}){_DONE})[,:]? (?:then |you can |please )*(?P<main>.+)"),
    (LinkKind.BLOCKS, True, False, rf"(?:\w+ (?:minutes?|hours?|days?|weeks?|months?) )?{_WHEN} (?P<about>[^,]+), (?:then |you can |please )*(?P<main>.+)"),
    (LinkKind.BLOCKS, True, False, rf"{_WHEN} (?P<about>[^,]+?{_DONE}) (?P<main>.+)"),
    (LinkKind.BLOCKS, False, False, r"(?:before|prior to) (?P<about>[^,]+), (?:please )?(?P<main>.+)"),
    (LinkKind.FEEDS_INTO, True, False, rf"{_FROM} (?P<about>[^,]+), (?:please )?(?P<main>.+)"),
    (LinkKind.FEEDS_INTO, True, False,
     r"(?:with|from|out of) (?P<about>(?:that|this|these|those|the|both|its|their|your|all)\b[^,]*), (?:please )?(?P<main>.+)"),
    (LinkKind.FEEDS_INTO, True, False, r"taking (?P<about>[^,]+?) into (?:account|consideration),? (?P<main>.+)"),
    (LinkKind.FEEDS_INTO, True, False,
     r"(?:use|take) (?P<about>(?:that|this|these|those|the|both|its|their|your|all|it|them)\b.*?) (?:to|and|for) (?P<main>\w+ .+)"),
    (LinkKind.PARALLEL_OK, True, False, rf"{_BESIDE}[,:]? (?:please )?(?P<main>.+)"),
    # what the work itself speaks of, and so what is left of it is all of it
    (LinkKind.FEEDS_INTO, True, False, r"(?P<main>(?:feed|plug|work|put|pour|turn|make) (?=(?P<about>(?:the|that|those|these|them|it|both)\b.*?) into ).+)"),
    (LinkKind.FEEDS_INTO, True, False,
     r"(?P<main>(?:tailor|adapt|adjust|fit|align|match) .+? to (?=(?P<about>(?:what|how|whatever|the|their|those|that|these)\b.+)).+)"),
    (LinkKind.FEEDS_INTO, True, False,
     r"(?P<main>.+? (?:that|which) (?:takes?|accounts? for|reflects?|builds? on|respects?) (?=(?P<about>.+)).+)"),
    (LinkKind.FEEDS_INTO, True, False,
     r"(?P<main>.+? to (?:match|suit|reflect|fit|go with) (?=(?P<about>(?:the|what|how|whatever|that|those|their)\b.+)).+)"),
    (LinkKind.FEEDS_INTO, True, False, r"(?P<main>.+?),? around (?P<about>(?:what|how|whatever)\b.+)"),
    (LinkKind.FEEDS_INTO, True, False, rf"(?P<main>.+?),? (?:from|out of|with|on|by) (?P<about>{_KNOWN})"),
    (LinkKind.FEEDS_INTO, True, False, r"(?P<main>.+?),? accordingly"),
    (LinkKind.BLOCKS, True, False,
     r"(?P<main>.+?),? (?:but |and |though )?(?:we|i|you) (?:need|want|must have|have to have) (?P<about>.+?) (?:beforehand|first|before(?: that| then)?)"),
    # what stands after it
    (LinkKind.PARALLEL_OK, True, False,
     r"(?P<main>.+?),? (?:that|this|it|which|those|these|they)(?:'s|'re| is| are)? (?:independent|separate) (?:of|from) (?P<about>.+)"),
    (LinkKind.PARALLEL_OK, True, False, rf"(?P<main>.+?),? (?:{_BESIDE}|(?:- )?{_APART})"),
    (LinkKind.BLOCKS, True, False, r"(?P<main>.+?),? (?:afterwards?|after(?: (?:that|this|it))?|thereafter|subsequently)"),
    (LinkKind.FEEDS_INTO, True, False, rf"(?P<main>.+?),? {_FROM} (?P<about>.+)"),
    (LinkKind.FEEDS_INTO, True, False, r"(?P<main>.+?),? taking (?P<about>.+?) into (?:account|consideration)"),
    (LinkKind.FEEDS_INTO, True, False, rf"(?P<main>.+?) (?:from|out of|with) (?P<about>{_RESULT})"),
    (LinkKind.BLOCKS, True, False, rf"(?P<main>.+?),? (?:but )?{_WHEN} (?P<about>.+)"),
    (LinkKind.BLOCKS, False, False, r"(?P<main>.+?),? (?:before|prior to|ahead of) (?P<about>.+)"),
)  # fmt: skip
_COMPILED = tuple((kind, waits, statement, re.compile(form, re.IGNORECASE)) for kind, waits, statement, form in _FORMS)


_LONGEST = 1000  # characters: what ties work together is said in fewer, and a pattern may take its time over more


def cut(sentence: str) -> Cut:
    """Take the cues off, the outermost first; what is left is the work itself."""
    action = sentence.strip(" .!,;:")
    cues: list[Cue] = []
    statement = False
    while len(action) <= _LONGEST and (found := _outermost(action)) is not None:
        cue, rest, told = found
        cues.append(cue)
        statement = told
        if told or rest == action:
            action = rest
            break
        action = rest
    return Cut(action.strip(" .!,;:"), tuple(cues), statement)


def _outermost(text: str) -> tuple[Cue, str, bool] | None:
    for kind, waits, statement, form in _COMPILED:
        found = form.fullmatch(text)
        if found is None or not found["main"].strip(" ,"):
            continue
        main = found["main"].strip(" ,")
        about = found.groupdict().get("about") or PREVIOUS
        return Cue(kind, about.strip(" ,."), _said(text, main), waits), main, statement
    return None


def _said(text: str, main: str) -> str:
    """The words of the cue: what is left of the sentence without the work."""
    start = text.find(main)
    rest = f"{text[:start]} … {text[start + len(main) :]}" if text[:start].strip() else text[start + len(main) :]
    return rest.strip(" ,.…").strip()


# Words that tell how far something is, or what came out of it, but not what it is.
_STATES = frozenset(
    map(
        stem,
        """done finished finish complete completed ready over sorted place arrive arrived exist exists work works live set known
        know result results outcome outcomes output outputs feedback answer answers data number numbers figure
        figures insight insights learned learn information info final in there available confirmed approved agreed agree signed
        closed clear going back up started happened delivered come came task step part thing stuff one ones rest others""".split(),
    )
)
# The same in a clause: "what you find", "how it went", "whatever they tell us".
_CAME_ABOUT = frozenset(
    map(stem, "find found say said tell told hear heard turn happen went go need permitting".split())
)
_POINTING = re.compile(
    r"^(?:that|this|it|its|they|them|their|these|those|he|she|his|her|which|the (?:same|above|latter))\b", re.IGNORECASE
)
_BOTH = re.compile(r"\b(?:both|the two|these two|those two)\b", re.IGNORECASE)
_ALL = re.compile(r"\b(?:all|everything|everyone|all of (?:them|that|it|these|those))\b", re.IGNORECASE)
_OUTCOME = re.compile(
    r"\b(?:results?|findings?|outcomes?|outputs?|feedback|answers?|data|numbers|figures|insights?|information)\b",
    re.IGNORECASE,
)
_ENOUGH = 0.5  # of the words of a reference


class Reference(NamedTuple):
    """Which of the pieces of work are meant, and how surely. None: nothing that was spoken of."""

    pieces: tuple[int, ...]
    confidence: float


NOTHING = Reference((), 0.0)
_POINTED = 0.9
_NAMED = 0.95


def resolve(about: str, pieces: Sequence[Sequence[str]], own: int, barred: Iterable[int] = ()) -> Reference:
    """`pieces` are the stems of each piece of work in the order they were said; `own` is the one that speaks.

    Earlier ones are meant rather than later ones, and nearer ones rather than farther ones.
    """
    out = {own, *barred}
    before = [number for number in range(own - 1, -1, -1) if number not in out]
    after = [number for number in range(own + 1, len(pieces)) if number not in out]
    if _BOTH.search(about) and len(before) > 1:
        return Reference(tuple(sorted(before[:2])), _POINTED)
    spoken = telling_words(about)
    telling = [one for one in spoken if one not in _CAME_ABOUT]
    for stems in (spoken, telling):
        if stems and (named := _by_words(stems, pieces, [*before, *after])) is not None:
            return named
    if _ALL.search(about) and not telling:
        return Reference(tuple(sorted(before)), _POINTED) if before else NOTHING
    if before and (
        not words(about) or _POINTING.match(about) or (_OUTCOME.search(about) and not telling) or not telling
    ):
        return Reference((before[0],), _POINTED)
    return NOTHING


def telling_words(about: str) -> list[str]:
    """The stems that say which work is meant."""
    return [one for one in keywords(about) if one not in _STATES]


def _by_words(telling: Sequence[str], pieces: Sequence[Sequence[str]], order: Sequence[int]) -> Reference | None:
    best, score = None, 0.0
    for number in order:
        covered = coverage(telling, pieces[number])
        if covered > score:
            best, score = number, covered
    return Reference((best,), _NAMED * (0.8 + 0.2 * score)) if best is not None and score >= _ENOUGH else None


def means(one: str, other: str) -> bool:
    return same_root(one, other) or are_synonyms(one, other)


def coverage(telling: Sequence[str], stems: Sequence[str]) -> float:
    """How much of what is told is found among the stems. "breakdown" is found in "break down"."""
    joined = {"".join(pair) for pair in pairwise(stems)}
    found = sum(1 for one in telling if one in joined or any(means(one, other) for other in stems))
    return found / len(telling)
