"""The act of each message in a batch, and the open tasks that it means."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from dibs.chat.analyst import requests
from dibs.chat.analyst.analysis import Question, Role
from dibs.chat.analyst.deliverables import opens_with_verb
from dibs.chat.analyst.requests import Part, read
from dibs.chat.language.acts import (
    NOTHING_BEFORE,
    OTHER,
    REQUEST,
    STEERING,
    UNCLEAR,
    Act,
    Around,
    alike,
    bucket,
    decided,
    first_reading,
    folded,
    naming,
    patterns,
    surface,
    tokens,
    weights,
)
from dibs.chat.language.cues import cut
from dibs.chat.language.sentences import bare_request, is_small_talk, parted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.chat.analyst.analysis import Message, OpenTask

# Verbs that begin many titles and therefore do not identify a task.
_VERBS = frozenset(
    """add analyse analyze answer announce ask arrange book build buy call change chase check clean collect compare
    create design do document draft edit email file find finish fix get investigate make migrate move order organise
    pay plan post prepare print publish record refactor release renew repair reply reserve review rewrite run
    schedule send set ship sort submit summarise test translate update write abstimmen anfragen beauftragen
    bestellen buchen einholen einreichen erstellen fertigstellen klaren organisieren planen prufen schicken
    schreiben uberarbeiten verschicken vorbereiten machen suchen actualizar buscar comprar corregir enviar hacer
    llamar mandar pedir preparar redactar reservar revisar acheter caler chercher commander corriger ecrire envoyer
    faire finaliser mettre preparer rediger relancer trouver verifier""".split()
)
_SHOWN = 8  # open tasks that a message is compared with; the model was fitted with this number


class Titles:
    """The open tasks by their words, for a fast search of the few that a message may mean."""

    def __init__(self, titles: Sequence[str]) -> None:
        self.words = [tuple(naming(tokens(title))) for title in titles]
        self._found: dict[str, tuple[int, ...]] = {}

    def around(self, words: Sequence[str]) -> Around:
        return Around(tuple(self.words[number] for number in self.likeliest(words)))

    def likeliest(self, words: Sequence[str]) -> list[int]:
        if len(self.words) <= _SHOWN:
            return list(range(len(self.words)))
        ranked = sorted(self.shares(words).items(), key=lambda one: (-one[1], one[0]))
        return [number for number, _ in ranked[:_SHOWN]]

    def shares(self, words: Sequence[str]) -> dict[int, float]:
        """How much of each title the words name. A rare word counts for more than a common one."""
        found: dict[int, float] = {}
        telling = [word for word in dict.fromkeys(naming(words)) if word not in _VERBS]
        for word in telling or naming(words):
            having = self._having(word)
            for number in having:
                found[number] = found.get(number, 0.0) + 1 / (1 + len(having))
        return found

    def _having(self, word: str) -> tuple[int, ...]:
        if word not in self._found:
            near = self._by_letter if len(self.words) > _SHOWN else {word[0]: list(self._places)}
            same = [other for other in near.get(word[0], ()) if alike(word, other)]
            self._found[word] = tuple(sorted({number for other in same for number in self._places[other]}))
        return self._found[word]

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for number, title in enumerate(self.words):
            for word in title:
                found.setdefault(word, []).append(number)
        return found

    @cached_property
    def _by_letter(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for word in self._places:
            found.setdefault(word[0], []).append(word)
        return found


def rules(text: str) -> list[float]:
    """The features that the English rules find."""
    found, bare = read(text), bare_request(text)
    seen = (found.requests, found.details, found.report, is_small_talk(text), opens_with_verb(bare), cut(bare).cues)
    return [float(bool(one)) for one in seen]


def own_reading(text: str, titles: Titles) -> list[float]:
    words = tokens(text)
    return first_reading({bucket(one) for one in patterns(words, text, titles.around(words))}, weights())


def features(text: str, titles: Titles, readings: Sequence[Sequence[float]], place: int) -> list[float]:
    """`readings` are the first model's results for this message and the earlier ones."""
    words = tokens(text)
    before = [*reversed(readings[:place]), NOTHING_BEFORE, NOTHING_BEFORE][:2]
    near = titles.around(words)
    return [*readings[place], *before[0], *before[1], *surface(text, words, near, place), *rules(text)]


# Verbs of commands and of new work. Any other English verb at the start asks for work.
_AMBIGUOUS = frozenset(
    """add bring bump cancel carry change check close concentrate continue cut defer delay do drop edit exchange expedite
    finish focus forget get give go handle hold include keep leave let make mark merge move park pause plan postpone
    prioritise prioritize push put remove rename reopen replace restart resume revert run scrap separate set shift show
    skip start stop swap switch sync take tackle tell tick turn undo update use work kill bin abort please pull""".split()
)


_DETERMINERS = frozenset("a an the my our your his her its their this these those some any all new more".split())
_LITTLE_DOUBT = 0.2  # the same for a message without a capital or an article
_DOUBT = 0.8  # share of "other" up to which an English imperative counts as a request


_CLEAR = 0.65


def _asking(act: Act, text: str) -> Act:
    """Correct the model, which may misread a plain English request on an open task's subject."""
    if not parted(text).said:
        return act._replace(name=OTHER, detail="quote")
    if _NAMED_WORK.match(text):
        return act._replace(name=REQUEST)
    asking = _english(act, text)
    return asking._replace(name=UNCLEAR) if asking == act and act.name == REQUEST and act.request < _CLEAR else asking


_NAMED_WORK = re.compile(r"\s*(?:task|todo|to-do|aufgabe|tâche|tache|tarea)\s*:\s*\S", re.IGNORECASE)


_HALF_CLEAR = 0.4
_ASKS_TO_FIND_OUT = re.compile(r"(?:which|what|where|who|how (?:much|many)) .+\?$", re.IGNORECASE)


def _orders_work(text: str) -> bool:
    """Whether the text has a cue and a request: "Once the fence is painted, plant the roses"."""
    action, cues, _ = cut(bare_request(text))
    return bool(cues) and opens_with_verb(action) and action.split()[0].lower() not in _AMBIGUOUS


def _english(act: Act, text: str) -> Act:
    words = tokens(text)
    if len(words) <= 1:
        return act
    if act.request >= _HALF_CLEAR and (_ASKS_TO_FIND_OUT.match(text) or _orders_work(text)):
        return act._replace(name=REQUEST, request=max(act.request, _CLEAR))
    do = words[0] == "do" and act.name == OTHER and "?" not in text  # "do competitor research"
    if not do and (words[0] in _AMBIGUOUS or not opens_with_verb(text)):
        return act
    plain = words[1] in _DETERMINERS or text[0].isupper() or "".join(text.split()[1:2])[:1].isupper()
    if act.name == OTHER and act.other > (_DOUBT if plain else _LITTLE_DOUBT):
        return act
    most = max(act.request, act.steering, act.other, _CLEAR)
    return act._replace(name=REQUEST, request=most) if read(text).requests else act


def understood(texts: Sequence[str], titles: Titles) -> list[Act]:
    """The act of each message, given the messages before it."""
    readings = [own_reading(text, titles) for text in texts]
    read_so = (
        decided(features(text, titles, readings, place), readings[place], weights()) for place, text in enumerate(texts)
    )
    return [_asking(act, text) for act, text in zip(read_so, texts, strict=True)]


def subject(title: Sequence[str]) -> tuple[str, ...]:
    """The words that identify the task, without verbs that begin many titles."""
    return tuple(word for word in title if word not in _VERBS) or tuple(title)


class Meant(NamedTuple):
    """The numbers of the open tasks that a message means, in its order, and whether this is certain."""

    tasks: tuple[int, ...]
    certain: bool


_FIRST = frozenset(["first", "erste", "ersten", "erstes", "premier", "premiere", "primero", "primera"])
_LAST = frozenset(["last", "letzte", "letzten", "letztes", "dernier", "derniere", "ultimo", "ultima"])
_EVERYTHING = frozenset(
    """everything all everyone everybody alles alle allen tout tous toutes todo todos todas nothing nichts rien nada""".split()
)
_RIVAL = 0.7  # share of the best title's score from which another title is a candidate as well


def meant(text: str, titles: Titles, before: Sequence[int] = ()) -> Meant:
    """`before` are the tasks that the previous message was about."""
    words = tokens(text)
    shares = titles.shares(words)
    if not shares:
        return _pointed(words, titles, before)
    ranked = sorted(shares, key=lambda number: (-shares[number], number))
    place = {number: _place(words, titles.words[number]) for number in ranked[:_SHOWN]}
    chosen: list[int] = []
    used: set[str] = set()
    for number in ranked[:_SHOWN]:
        own = {word for word in naming(words) if any(alike(word, other) for other in titles.words[number])}
        if own - used:
            chosen.append(number)
            used |= own
    rivals = [n for n in ranked if n not in chosen and shares[n] >= _RIVAL * min(shares[c] for c in chosen)]
    return Meant(tuple(sorted(chosen, key=lambda number: place[number])), not rivals)


def _pointed(words: Sequence[str], titles: Titles, before: Sequence[int]) -> Meant:
    count, said = len(titles.words), set(words)
    if count and said & _FIRST:
        return Meant((0,), certain=False)
    if count and said & _LAST:
        return Meant((count - 1,), certain=False)
    if before:
        return Meant(tuple(before), certain=False)
    return Meant((0,) if count == 1 else (), certain=False)


def _place(words: Sequence[str], title: Sequence[str]) -> int:
    return next((i for i, word in enumerate(words) if any(alike(word, other) for other in title)), len(words))


class Steer(NamedTuple):
    """A command that the model found. If it is `certain`, it can be carried out."""

    name: str
    tasks: tuple[int, ...]
    certain: bool


_SURE_OF_QUERY = 0.6  # least share of steering to carry out a query; changes are confirmed first
_QUERIES = frozenset({"plan", "why"})
# Words that forbid a change. They do not ask for it.
_FORBIDS = re.compile(
    r"\b(?:don't|dont|do not|never|not to) (?:\w+ )?(?:cancel|delete|drop|scrap|pause|stop|bin|kill|forget|touch|remove)\b"
    r"|\b(?:cancel|streich|losch|stopp|vergiss|verschieb)\w* .{1,40}\bnicht$|\bnicht (?:canceln|streichen|loschen|stoppen)\b"
    r"|\b(?:annul|supprim|arret|oubli)\w+ (?:surtout )?pas\b"
    r"|\bno (?:me )?(?:cancel|borr|anul|par|olvid|quit)[ei]\w+\b"
)
_NAMED = 0.7  # least share of this command among all commands
_WITHOUT = frozenset({"plan", "sync", "undo"})
_PAIRS = frozenset({"before", "independent"})
_WHOLE = frozenset({"pause", "resume"})
_LATER = re.compile(
    r"\b(?:after|once|until|till|waits?|waiting|depends?|needs|requires|when|as soon as|without"
    r"|nach|erst wenn|sobald|wartet|warten|hangt|braucht|bevor nicht|ohne"
    r"|apres|une fois|quand|des que|attendre|attend|depend|tant que|besoin|sans"
    r"|despues|cuando|en cuanto|espere|esperar|depende|necesita|hasta|sin)\b"
)
_EARLIER = re.compile(
    r"\b(?:first|before|then|erst|zuerst|vor|dann|danach|d'abord|avant|puis|ensuite|primero|antes|luego)\b"
)


def steers(texts: Sequence[str], titles: Titles, acts: Sequence[Act]) -> list[Steer | None]:
    """The command in each message that the model classifies as one."""
    found: list[Steer | None] = []
    before: tuple[int, ...] = ()
    for text, act in zip(texts, acts, strict=True):
        there = meant(text, titles, before)
        before = there.tasks if titles.shares(tokens(text)) else before
        steering = act.name in STEERING and not _FORBIDS.search(folded(text).strip(" .!"))
        found.append(_steer(text, act, there) if steering else None)
    return found


def _steer(text: str, act: Act, there: Meant) -> Steer:
    name, tasks, certain = act.command, there.tasks, there.certain
    said = set(tokens(text))
    if name in _WHOLE and (said & _EVERYTHING or not tasks):
        tasks, certain = (), bool(said & _EVERYTHING)
    elif name in _PAIRS:
        tasks, certain = tasks[:2], certain and len(tasks) == 2  # noqa: PLR2004 - a pair
        plain = folded(text)
        if name == "before" and _LATER.search(plain) and not _EARLIER.search(plain):
            tasks = tasks[::-1]
    elif name in _WITHOUT:
        tasks, certain = (), True
    else:
        certain = certain and len(tasks) == 1
    certain = certain and name in _QUERIES and act.steering >= _SURE_OF_QUERY and act.sureness >= _NAMED
    return Steer(name, tasks, certain)


_SAYS_MORE = frozenset({"constraint", "correction", "quote", "report"})


def part_of(message: Message, act: Act) -> Part:
    """The part of a message in the requests. A rule may override the model: announcements ask for nothing."""
    if message.role is not None:
        return Part.REQUEST if message.role is Role.REQUEST else Part.IDLE
    if is_small_talk(message.text):
        return Part.IDLE
    if act.name == REQUEST:
        return Part.REQUEST
    return Part.DETAIL if act.name in (UNCLEAR, OTHER) and act.detail in _SAYS_MORE else Part.IDLE


def parts_of(messages: Sequence[Message], known: Sequence[OpenTask]) -> list[Part]:
    acts = understood([message.text for message in messages], Titles([task.title for task in known]))
    return [part_of(message, act) for message, act in zip(messages, acts, strict=True)]


# The wording of each command in a question.
_DOING = {
    "before": "do {0} before {1}", "cancel": "cancel {0}", "defer": "leave {0} for later", "done": "tick {0} off",
    "edit": "change {0}", "focus": "work only on {0}", "independent": "let {0} and {1} go on side by side",
    "pause": "pause {0}", "plan": "show the plan", "priority": "do {0} first", "resume": "go on with {0}",
    "sync": "sync with Notion", "undo": "undo the last change", "why": "say why {0} waits",
}  # fmt: skip


def doing(name: str, titles: Sequence[str]) -> str:
    """The wording of a command, such as "cancel 'Print flyers'"; missing tasks are "which task?"."""
    whole = "everything" if name in _WHOLE else "a task (which one?)"
    return _DOING[name].format(*(f"'{title}'" for title in titles), *(whole,) * 2)


def work_question(message: Message) -> Question:
    name = requests.title(message.text)
    text = f'Is this new work: "{name}"? If so, say "task: {name}".'
    return Question("work", (), text, "", message.ref)


def command_question(message: Message, steer: Steer, known: Sequence[OpenTask]) -> Question:
    tasks = [known[number] for number in steer.tasks]
    text = f"Do you mean: {doing(steer.name, [task.title for task in tasks])}?"
    return Question("command", tuple(task.id for task in tasks), text, steer.name, message.ref)
