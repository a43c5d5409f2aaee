"""Cues: wording that links two pieces of work, as in "once the upgrade is done, …" and "… based on the survey".

`cut` removes the cues from a sentence and returns the kind, direction and reference of each link. `resolve` finds the
tasks of a reference: "that", "both", "the survey", "the venue is booked". A cue that refers to no known task, such as
"before noon", creates no link.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from dibs.chat.language.acts import folded
from dibs.chat.language.words import are_synonyms, keywords, same_root, stem, words
from dibs.core.task import LinkKind

PREVIOUS = ""  # the reference of a cue to the piece of work just before


class Cue(NamedTuple):
    """With `waits`, the sentence's own work comes after the referenced one, else before it."""

    kind: LinkKind
    about: str
    said: str
    waits: bool = True


class Cut(NamedTuple):
    """A sentence without its cues. A `statement` refers to an earlier request and asks for nothing."""

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

# Groups of a form: `main` is the work asked for, `about` its reference.
_FORMS: tuple[tuple[LinkKind, bool, bool, str], ...] = (
    # kind, waits, statement, pattern: statements first, since they are the most specific
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
    # cues before the work
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
    # cues inside the work, which remain in it
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
    # cues after the work
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


_LONGEST = 1000  # characters; longer sentences have no cues, and would make the patterns slow


def cut(sentence: str) -> Cut:
    """Remove the cues, outermost first. The rest is the work."""
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
    """The words of the cue: the sentence without the work."""
    start = text.find(main)
    rest = f"{text[:start]} … {text[start + len(main) :]}" if text[:start].strip() else text[start + len(main) :]
    return rest.strip(" ,.…").strip()


# Words for progress and results, which do not name a task.
_STATES = frozenset(
    map(
        stem,
        """done finished finish complete completed ready over sorted place arrive arrived exist exists work works live set known
        know result results outcome outcomes output outputs feedback answer answers data number numbers figure
        figures insight insights learned learn information info final in there available confirmed approved agreed agree signed
        closed clear going back up started happened delivered come came task step part thing stuff one ones rest others""".split(),
    )
)
# The same as verbs of a clause: "how it went", "as it turned out".
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
_ENOUGH = 0.5  # least share of a reference's words


# Wording that refers to the request before, without accents.
_TAKES_UP = re.compile(
    r"^(?:(?:and|und|et|y|ok|so|but|aber|mais|pero|also|only|erst) )*(?:then|after that|afterwards|next|dann|danach|anschliessend|hinterher"
    r"|ensuite|puis|apres|luego|despues)\b"
    r"|\b(?:and then|und dann|danach|et ensuite|et puis|et apres|y luego|y despues|y entonces|after that|afterwards|anschliessend|im anschluss)\b"
    r"|\b(?:once|as soon as|when (?:it|that|they|those|you|we|its|that's|it's)|after (?:it|that|you|we)|not before|only if)\b"
    r"|\b(?:sobald|wenn(?:'s| (?:das|die|der|es|ihr|wir|alles))|erst wenn|nachdem|une fois|quand|des que|tant que|cuando|en cuanto|una vez que|hasta que)\b"
    r"|\b(?:based on|off (?:of )?(?:that|this|it|those)|(?:from|out of) (?:that|it|this|there|those|these|them|what)|using (?:that|those|the)"
    r"|with (?:that|those|these|the (?:results?|numbers|list|answers?)|it|them)|depending on|whichever|whatever \w+ (?:we|you|it|they))\b"
    r"|\b(?:daraus|damit|davon|darauf|auf (?:der )?basis|mit (?:den|dem) (?:ergebniss?en?|ergebnis|zahlen|liste)|je nachdem|sur cette base|a partir de|avec (?:ca|ces|cette liste)"
    r"|en fonction|selon (?:ca|le|la|les|ce)|con (?:eso|esos|esas?|lo que|los resultados|los datos)|de ahi|segun (?:lo|eso|el|la))\b"
    r"|^(?:if|falls|si|wenn) (?:it|its|it's|they|that|so|yes|not|ja|nicht|nein|das|es|oui|non|c'est|si|no|esta)\b"
)
_INDEPENDENT = re.compile(
    r"\b(?:(?:not|n't|need not|without) (?:have to |need to )?(?:wait|waiting)|no need to wait|separate(?:ly)?|independent|nothing to do with"
    r"|unabhangig|nicht warten|nichts mit|nix mit|rien a voir|independamment|pas besoin d'attendre|nada que ver|sin esperar)\b"
)


def takes_up(text: str) -> str:
    """The words that refer to the request before, or "" if the text denies that."""
    plain = folded(text)
    found = _TAKES_UP.search(plain)
    return "" if found is None or _INDEPENDENT.search(plain) else found.group()


class Reference(NamedTuple):
    """The pieces of work that a reference means, and the confidence. No pieces: none was mentioned."""

    pieces: tuple[int, ...]
    confidence: float


NOTHING = Reference((), 0.0)
_POINTED = 0.9
_NAMED = 0.95


def resolve(about: str, pieces: Sequence[Sequence[str]], own: int, barred: Iterable[int] = ()) -> Reference:
    """Find the pieces of a reference. Earlier pieces precede later ones, nearer pieces precede farther ones.

    `pieces` are the stems of each piece of work in message order; `own` is the number of the piece with the cue.
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
    """The stems that identify the work."""
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
    """The share of the words found among the stems. "breakdown" is found in "break down"."""
    joined = {"".join(pair) for pair in pairwise(stems)}
    found = sum(1 for one in telling if one in joined or any(means(one, other) for other in stems))
    return found / len(telling)
