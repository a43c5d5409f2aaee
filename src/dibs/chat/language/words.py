"""Words: normalised spelling, stems, keywords, and tables of synonyms and of words that exclude each other.

`are_synonyms` and `are_distinct` look two stems up in the tables. For words in neither table, `analyst/duplicates.py`
compares vectors.
"""

from __future__ import annotations

import re
from functools import cache

_STRAIGHT = str.maketrans(
    {"‘": "'", "’": "'", "‚": "'", "′": "'", "`": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"'}
    | {"–": "-", "—": "-", "−": "-", "‐": "-", "‑": "-", "…": "...", "\u00a0": " ", "\u202f": " ", "\u200b": ""}
)
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")

# Words that connect others and have no subject of their own.
LITTLE = frozenset(
    """a an the this that these those it its they them their there here he she his her him i me my we us our you your
    who whom whose which what when where how why if whether as than then so and or but nor not no yes to of in on at by
    for from with about into onto over under up out off down through during between within without per via is am are was
    were be been being do does did done doing have has had having will would shall should can could may might must
    got let lets please also too just only very really still already yet now again first next last once after before
    until till while soon later both all any each every some more most other another such own same one ones thing things
    ok okay thanks thank hi hello hey i'm i'll i'd i've we're we'll we'd we've you're it's that's there's don't doesn't
    didn't can't cannot won't isn't aren't wasn't let's what's s t ll ve re""".split()
)

NEGATIONS = frozenset(
    "not no never don't doesn't didn't can't cannot won't isn't aren't wasn't without stop avoid".split()
)


def straight(text: str) -> str:
    """The text with straight quotes, hyphens for dashes, and single blanks."""
    return " ".join(text.translate(_STRAIGHT).split())


def words(text: str) -> list[str]:
    """Words in lower case, without punctuation except apostrophes inside a word."""
    return _WORD.findall(text.translate(_STRAIGHT).lower())


def keywords(text: str) -> list[str]:
    """Stems of the words with a meaning, each once, in order, without possessive 's."""
    telling = (word.removesuffix("'s") for word in words(text) if word not in LITTLE)
    return list(dict.fromkeys(stem(word) for word in telling if word not in LITTLE))


_ENDINGS = (
    ("isations", "is"), ("izations", "is"), ("isation", "is"), ("ization", "is"), ("ising", "is"), ("izing", "is"),
    ("ised", "is"), ("ized", "is"), ("ises", "is"), ("izes", "is"), ("ise", "is"), ("ize", "is"), ("yse", "ys"),
    ("yze", "ys"), ("ysing", "ys"), ("yzing", "ys"), ("ysed", "ys"), ("yzed", "ys"), ("ysis", "ys"), ("yses", "ys"),
    ("ational", "at"), ("ations", "at"), ("ation", "at"), ("ating", "at"), ("ated", "at"), ("ates", "at"),
    ("ate", "at"), ("nesses", "ness"), ("ments", ""), ("ment", ""), ("fully", "ful"), ("ically", "ic"),
    ("ies", "y"), ("ied", "y"), ("sses", "ss"), ("ches", "ch"), ("shes", "sh"), ("xes", "x"), ("ings", ""),
    ("ing", ""), ("edly", ""), ("ed", ""), ("ers", "er"), ("ly", ""), ("es", ""), ("e", ""), ("s", ""),
)  # fmt: skip
_SHORTEST = 3  # least letters of a stem


_IRREGULAR = dict(
    pair.split("/")
    for pair in """found/find bought/buy written/write wrote/write sent/send built/build made/make chosen/choose chose/choose
    drawn/draw drew/draw grown/grow grew/grow paid/pay sold/sell taught/teach held/hold ran/run laid/lay hung/hang shot/shoot
    met/meet kept/keep left/leave lent/lend spoken/speak spoke/speak taken/take took/take given/give gave/give begun/begin
    began/begin sewn/sew dug/dig fed/feed frozen/freeze froze/freeze swept/sweep sought/seek shown/show known/know driven/drive
    drove/drive flown/fly caught/catch brought/bring thought/think told/tell said/say seen/see saw/see won/win lost/lose
    spent/spend lit/light heard/hear felt/feel led/lead broken/break broke/break hidden/hide risen/rise rewritten/rewrite
    rebuilt/rebuild redrawn/redraw people/person children/child men/man women/woman mice/mouse analyses/analysis""".split()
)


@cache
def stem(word: str) -> str:
    """The word without its ending: tests, tested and testing are equal. Numbers and short words stay unchanged."""
    word = _IRREGULAR.get(word, word)
    if len(word) <= _SHORTEST or not word.isalpha() or word.endswith("ss"):
        return word
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) + len(instead) >= _SHORTEST:
            return _undoubled(word[: len(word) - len(ending)] + instead)
    return word


def _undoubled(root: str) -> str:
    """Remove a doubled consonant before an ending: plan, planned, planning."""
    doubled = len(root) > _SHORTEST and root[-1] == root[-2] and root[-1] not in "aeiouls"
    return root[:-1] if doubled else root


_KIN = 5  # least common letters of two stems with one root


@cache
def same_root(one: str, other: str) -> bool:
    """Whether two stems have one root: compar(e) and compar(ison), translat(e) and translat(or)."""
    if one == other:
        return True
    short, long = sorted((one, other), key=len)
    if len(short) < _KIN or not short.isalpha():
        return False
    shared = next((at for at, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    return shared >= max(_KIN, len(short) - 1) and len(long) - shared <= _KIN


_SAME = """
write draft compose author
article post blogpost
fix repair mend correct resolve solve debug
buy purchase order get acquire procure
call phone ring telephone
find locate search look seek hunt hire
hire recruit engage
check review inspect examine verify
delete remove drop erase purge
create make build produce prepare develop
research investigate explore study
analyse evaluate assess
book reserve arrange organise
reply respond answer
remind chase nudge
repeat redo
rent hire lease
loo toilet lavatory
nappy diaper
lawyer solicitor attorney
flat apartment
holiday vacation
bin trash rubbish garbage
fridge refrigerator
quote offer estimate quotation
add write
ask enquire inquire
mend patch
send mail email forward dispatch submit resend
submit file lodge
increase enlarge raise expand extend grow
decrease reduce lower cut shrink
restart reboot
update refresh revise renew
test verify try
plan schedule organise arrange
install deploy roll rollout
summarise recap condense
translate localise
describe document explain
invoice bill
site website webpage homepage
customer client
employee staff worker
competitor rival competition
bug defect error fault issue
photo picture image photograph
speed performance
meeting call appointment
plan strategy roadmap
cost price expense
child kid pupil student
doc document documentation
repo repository
db database
app application
info information
begin start launch kick
end finish complete close
choose select pick decide
improve optimise enhance
talk speak
squeak squeaky
test exam
"""

# Two tasks with different words of one family are different.
_APART = """
front back rear
left right
import export
upload download
login logout
frontend backend
staging production
read write
open close
internal external
old new
first second third fourth last
before after
monday tuesday wednesday thursday friday saturday sunday
january february march april may june july august september october november december
spring summer autumn winter
morning noon evening night
daily weekly monthly yearly quarterly annual
north south east west
enable disable
add remove
increase decrease
buy sell
start stop
lock unlock
public private
inbound outbound
top bottom upper lower
red blue green yellow black white
"""


def _groups(table: str) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for number, line in enumerate(table.strip().splitlines()):
        for word in words(line):
            found.setdefault(stem(word), set()).add(number)
    return found


_SAME_GROUPS = _groups(_SAME)
_APART_GROUPS = _groups(_APART)
_NONE: frozenset[int] = frozenset()


def are_synonyms(one: str, other: str) -> bool:
    """Whether two stems ask for the same."""
    return bool(_SAME_GROUPS.get(one, _NONE) & _SAME_GROUPS.get(other, _NONE))


def are_distinct(one: str, other: str) -> bool:
    """Whether two stems exclude each other."""
    return one != other and bool(_APART_GROUPS.get(one, _NONE) & _APART_GROUPS.get(other, _NONE))
