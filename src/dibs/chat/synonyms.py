"""Words that ask for the same, and words that never do, as data. Beside them the vectors of words decide (alike.py)."""

from __future__ import annotations

from dibs.chat.language.words import stem, words

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

# Two tasks that differ in these differ.
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


def same(one: str, other: str) -> bool:
    """Two stems that ask for the same."""
    return bool(_SAME_GROUPS.get(one, _NONE) & _SAME_GROUPS.get(other, _NONE))


def apart(one: str, other: str) -> bool:
    """Two stems of one family, of which a thing is one or the other."""
    return one != other and bool(_APART_GROUPS.get(one, _NONE) & _APART_GROUPS.get(other, _NONE))
