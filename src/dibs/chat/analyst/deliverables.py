"""The deliverable type of a task: research, code, analysis, content, strategy, ops or testing.

Two models add up their scores. The first weighs the English tables below and the vectors of the request and of its
first two words. In the tables a verb counts where it opens the sentence, a noun anywhere after it: "write" points
weakly to content, because "tests" or "script" after it should win; "refactor" points strongly to code.
The second reads words, word pairs and parts of words in any language. tools/fit_deliverables.py fits both.
"""

from __future__ import annotations

import json
import math
import os
import re
from functools import cache, lru_cache
from itertools import pairwise
from operator import add, mul
from typing import TYPE_CHECKING, TypedDict
from zlib import crc32

from dibs.chat.analyst.embedders import WIDTH, Builtin
from dibs.chat.language.acts import LONGEST, tokens
from dibs.chat.language.sentences import bare_request
from dibs.chat.language.words import stem, straight, words

if TYPE_CHECKING:
    from collections.abc import Mapping


# Verbs that open a request. The longest match counts, so "look into" goes before "look".
VERBS: dict[str, dict[int, str]] = {
    "research": {
        4: "suss out|suss out whether|track down|sniff out|have a nose|nose around|have a dig|dig out|enquire|inquire about|enquire about|enquire with|know|know what|know who|know how much|know which|need info on|info on|info|have a look round|see what the|see who|look out for|get prices|get the names|background on|trawl|ask whether|find me|get me everything|research|look into|look up|find out|read up on|investigate|dig up|survey|interview|explore|learn about|ask around|"
        "talk to|track down|get quotes|get a quote|get offers|compile a list|make a list|find examples|look around|hunt for|"
        "do some research|do research|do some digging|dig into how|get an overview|get information|get information on|check who|check what|see what|see which|see who",
        3: "chase up where|hear what|check out what|know whether|find precedent|gather what|search|search for|look for|gather|collect|identify|discover|learn|study|read|scout|find|poll|ask|map|observe|"
        "trace|locate|inquire|query|source|shortlist|list|speak to|check which|check where|find the cheapest|scan the market",
        2: "count|check how|scan|compile",
    },
    "code": {
        4: "rip out|strip|strip out|bump|chuck a|stick a|wrap the|teach the|write something that|write something to|shave|type hints|wire the|get rid of the|make the app|make the csv|make search|let customers|implement|refactor|debug|program|code|port|hotfix|parse|compile the code|containerise|containerize|script|"
        "parallelise|parallelize|vectorise|vectorize|lint|rebase|let users|allow users|allow people|let people|scrape|wire",
        3: "fix|build|develop|automate|patch|optimise|optimize|merge|wire up|integrate|add|speed up|cache|hook up|hook|rewrite|"
        "prevent|support|expose|store|show|hide|handle|make it possible|get rid of|display",
        2: "migrate|extend|generate|create|make|convert|remove|delete|rename|improve|upgrade|change|replace|validate|let|allow|"
        "enable|disable|connect",
    },
    "analysis": {
        4: "tot up|add up|reckon up|sum up how|put a figure|pick apart|cross-check|run the numbers|make sense of|rate|value|cluster|tell me which|see how|work out whether|work out if|figure out if|figure out whether|set the|how did|what would it cost us|go over|put a price on|plot|analyse|analyze|evaluate|assess|calculate|compute|quantify|interpret|break down|break|compare|audit|estimate|"
        "dig into|model|correlate|diagnose|forecast|score|rank|examine|weigh|weigh up|weigh the|figure out which|figure out why|"
        "figure out how much|figure out how many|reconcile|project|segment|derive|explain why|identify which|identify the weakest|"
        "find patterns|look for patterns|work out what|determine how many|determine how much|determine which|determine the cause|"
        "check the numbers|check the figures|check the books|check the statistics|do the maths|do the math|judge|check our contracts|check the contract|check the lease|crunch|tally|benchmark our",
        3: "see whether the|look at whether|read through|see if the|review|work out how much|work out how many|work out which|look at|figure out|go through|appraise|scrutinise|scrutinize|"
        "plot|chart|graph|determine|measure how|do an analysis|run an analysis|check for",
        2: "measure|check|trace which|trace",
    },
    "content": {
        4: "knock up|knock together|pen|jot down|type up|tart up|minutes|minutes of|blurb|slides|poster|letter|obituary|toast|script for|caption the|leaflet|flyer|advert|give the brochure|sort the wording|sort out the wording|tidy up the wording|cover letter|witness statement|skeleton argument|press release|think up names|put into words|rework the|reply to|write back|draft|translate|proofread|compose|illustrate|summarise|summarize|transcribe|edit|document|describe|"
        "reply|respond to|caption|narrate|film|typeset|paraphrase|blog|tweet|write up|take photos|take pictures|answer",
        3: "write|design|record|draw|draw up|sketch|photograph|shoot|publish|post|explain|announce|phrase|turn|"
        "produce|animate|tell|format|polish|shorten|rewrite|reword|rephrase",
        2: "prepare|create|make|update|put together|present|revise|grade|compile",
    },
    "strategy": {
        4: "work out how|work out how on earth|figure out what we|figure out what to|settle|settle on|settle our|set out|game plan|plan of attack|think up how|weigh in|set the priorities|set our|map the route|choose between|decide if|decide whether|decide which|decide how|agree the|agree how|agree on how|strategise|strategize|prioritise|prioritize|brainstorm|decide|define|plan how|work out a|rethink|position|envision|"
        "recommend|propose|suggest|advise|think about|think through|work out how we|work out how to|figure out how we|"
        "figure out how to|earn|monetise|monetize|lay out|map out|find ways|find a way|devise|set targets|set goals|set the goals|"
        "set the targets|set priorities|come up with|get more|find the right|determine our|make our",
        3: "plan|outline|work out|choose|pick|agree on|select|double|triple|win|win back|shape|reposition|found|grow|attract|"
        "design a programme|commit to",
        2: "reduce|increase|start|develop|improve|determine|consider|launch",
    },
    "ops": {
        4: "adjust the|attach|bleed|boil|bolt|brush|bury|carry|chop|cover|dismantle|distribute|drill|dry|dye|erect|exchange|fasten|fertilise|fertilize|fumigate|glue|grease|grind|hand in|heat|incubate|inflate|inject|inoculate|insulate|insure|irrigate|issue|lift|milk|mulch|nail|oil|peel|press|pump|put out|recycle|refund|refuel|reimburse|relocate|repot|repaint|reorder|restock|rewire|rinse|roast|sand|saw|scrub|secure|sell|service|sharpen|shear|slice|soak|solder|spray|stamp|stock|stow|straighten|tape|trim|tune|vaccinate|wax|weld|wipe|wrap|hand in|check in|sign for|take down|take out|bring in|set out the|lay out the|put away|dispose of|throw out|cancel the|book in|admit|discharge|dispatch|invoice|bill|promote to|appoint|swear|lodge the|sort a|sort us|fix up a|pop|nip|swap|swap out|top up|bank|chase|ring round|ring up|get someone|get somebody|get the|have the|spin up|serve|lodge|trim|reset|advertise|brief|light|stain|pour|streak|sequence|weigh|exchange|thaw|split the|block up|collect|chase up|forward|drop|see to|tow|defrost|descale|reconcile|top|put down|gather up|deal with|lug|haul|fit|fit the|nail down|sort the bins|deploy|restart|reboot|back up|backup|provision|install|configure|roll out|rollout|renew|schedule|book|order|buy|purchase|"
        "pay|hire|send|mail|make an appointment|enter|meet|ship|call|phone|ring|email|invite|reserve|rent|clean|wash|mow|water|feed|pick up|drop off|deliver|"
        "register|enrol|enroll|sign up|sign|cancel my|cancel our|return|monitor|rotate|restore|archive|shut down|turn off|turn on|"
        "replace|swap|move|arrange|organise|organize|remind|file|submit|upload|download|print|repair|mend|sew|cook|bake|empty|"
        "paint|hang|lay|put up|put|assemble|stack|sweep|clear|drain|freeze|thaw|plate|extract|centrifuge|label|amplify|"
        "sequence|autoclave|calibrate|notarise|notarize|decorate|train|recruit|onboard|close|open|apply|apply for|confirm|obtain|"
        "get|fetch|take|bring|seal|defrost|descale|unclog|transfer|pack|unpack|iron|fold|vacuum|hoover|dust|plant|prune|harvest|"
        "weed|dig|fill|refill|charge|grant|revoke|tag|release|negotiate|notify|groom|dissect|rehearse|host|teach|we need|i need|"
        "we need more|give|hand out|hand over|hand|walk the|sow|switch|switch off|switch on|lock|unlock|load|unload|burn|mount|"
        "set the table|collect the rent|withdraw|deposit|evacuate|escort|drive|fly|park|tow|rake|shovel|ventilate|sterilise|sterilize",
        3: "run|set up|write to|set|prepare|check in|change|upgrade|export|import|scan|tidy|tidy up|sort|sort out|process|measure|"
        "launch|start the|stop|rebuild|have|make the|increase the|keep|leave|meet|attend|visit|warm|cool|cut|mix|stir|grow the",
        2: "finalise|finalize|approve|publish|tell|handle",
    },
    "testing": {
        5: "give the new|give it a|hammer|have a go at|confirm the|make certain|check nobody|try to break|put through its paces|replicate|repeat|sound check|pilot|trial run|have gran|have someone try|let users try|let five|walk the|proofread the labels|control that|control if|see that|prove|test|qa|compare the output|review the site|fuzz|look for bugs|verify|validate|load-test|load test|smoke-test|smoke test|stress-test|stress test|try out|try|reproduce|"
        "make sure|check that|check whether|check if|ensure|double-check|double check|confirm that|see if|see whether|pen-test|"
        "pentest|benchmark|run the tests|exercise|proof|prove|prove that|click through|walk through|run through|taste|taste-test|"
        "taste test|test drive|test-drive|test whether|test if|beta test|beta-test|dry-run|dry run|quality check|spot-check|recheck",
        4: "inspect|have someone|have two people|have people|run a trial|run a test|run an a/b test|trial|measure how the|check the links|check the site|check the wiring",
        3: "check the|check our|check all",
    },
}

# Nouns and other words that count at any position.
NOUNS: dict[str, dict[int, str]] = {
    "research": {
        3: "literature survey|background|competitor research|market research|user research|precedents|papers on|studies on|"
        "background check|market survey|quotes for|quotes from|literature search",
        2: "research|studies|sources|literature|interviews|suppliers|vendors|examples|experts",
        1: "competitors|trends|history|options|regulations|rules|alternatives",
    },
    "code": {
        4: "api endpoint|endpoint|script|function|functions|bot|plugin|extension|web app|webhook|typescript|python|rust|"
        "javascript|github action|migration script|sdk client|regex|sql|import job|cron job|rest api|docker image|helper functions|"
        "global variables|adapter|wrapper|build scripts|mobile app|type hints|feature flag|sql migration|dead code|ci for|code base|codebase|handler|scraper|stripe",
        3: "bug|api|page reload|polling loop|app|module|class|parser|library|frontend|backend|code|feature|button|oauth|login|dark mode|css|pagination|"
        "schema|crash|crashes|cli|compiler|algorithm|widget|csv export|two-factor|queries|prototype|importer|scheduler|"
        "memory leak|null|timeouts|timeout|caching|repo|signup|header|safari|simulation|proxy|installer|query|dashboard|mobile app|"
        "doesn't work|does not work|does not open|doesn't open|throws|stack trace|exception|metrics|progress bar|column|client",
        2: "page load|repository|component|table|database|search page|software|form|export|website|settings page|import|"
        "web page|users|account|field|settings|csv|robot",
        1: "page|service|site|engine",
    },
    "analysis": {
        4: "side by side|best value|worth it|worth suing|on the hook|what we're liable for|vs last year|versus last year|last quarter|exposure|why they left|culprits|any pattern|pattern|out of time|how likely|most people|regression on|break-even|break even|churn|root cause|cost breakdown|risk assessment|risks of|figures|patterns|"
        "bottleneck|cause of|pros and cons|cost-benefit|swot|error bars|key figures|costs us|cost us|down by|price per|cost per|cost of ownership|total cost|reason for|irregularities",
        3: "analysis|weak points|pull request|breakdown|comparison|numbers|liability|clauses|clause|hidden costs|inconsistencies|traffic|margins|"
        "spending|trend|effect of|efficient|sales figures|survey results|statistics|weakest|footprint|outliers|by delivery time|"
        "risks|efficiency|correlation|per year|how much|how many|worth it|profit|most profit",
        1: "data|costs|results|offers|contract|lease|policy|applicants|candidates",
    },
    "content": {
        4: "invite|blurb|bios|reels|flyer|brochure|poster|leaflet|eulogy|toast|plaque|chronology|letter of claim|letter before action|slides|wording|obituary|job ad|cover letter|translation|translated|thank-you note|thank you note|refund email|skeleton argument|witness statement|particulars|checklist|blog post|article|short film|film about|clip of|script of|newsletter|press release|slides|poster|flyer|flyers|infographic|video|release notes|poem|tagline|"
        "slogan|logo|business cards|invitation|essay|speech|caption|captions|translation|faq|case study|cover letter|brochure|"
        "one-page|summary|worksheet|quiz|exam|tutorial|job ad|introduction|abstract|documentation|readme|man pages|help article|"
        "letter|apology|posts|chapter|story|guide|manual|handbook|foreword|syllabus|floor plan|minutes|handout|card|photo book|"
        "presentation|descriptions|about page|thank-you note|banner|catalogue|catalog|script for|song|jingle|podcast intro|eulogy|"
        "job description|listing|storyboard|wiki page|two-page|blog|texts|caption|costumes|leaflet|sign|label text|photos of",
        3: "email to|report|text|post|menu into|paper|appeal|statement|section|cover|policy|privacy policy|content|review of|note|"
        "tone|simple words|map of",
        1: "page|website|thesis|recipe",
    },
    "strategy": {
        5: "strategy|roadmap|go-to-market|positioning|business plan|concept|vision|content plan|savings plan|succession plan|"
        "business case|pricing model|marketing plan|contingency plan|training plan|five-year plan|loyalty programme|"
        "loyalty program|content calendar|customer journey|targets|profitability|partnership programme|partnership program",
        4: "approach|game plan|next year|say no to|a way to|line to take|first release|win back|position before|in which order|our position|priorities|priorities|goals|okrs|budget for|plan for|plan to|plan|plans|backlog|options|ways to|concept for|community|"
        "market entry|enter the|directions|direction|feature requests|scope of|path to|curriculum|principles",
        2: "budget|campaign|campaigns|growth|initiative|market|hiring|programme|volunteers longer",
    },
    "ops": {
        4: "bins|boiler|mot|float|takings|payment|freezer|passwords|minibus|taxi|the cat|gas card|papers on|filters|plumber|traps|seating|rsvps|laptop|appointment|visa|parcel|meeting with|to production|server|certificate|backup|invoice to|bill|flights|hotel|table for|domain|patch|"
        "mailboxes|virtual machines|disk|rota|payroll|groceries|vpn|dentist|plumber|permit|rent|printer paper|toner|expense report|"
        "tax return|passport|access to",
        5: "roof|wall|walls|fence|pipe|pipes|tap|sink|door|doors|window|windows|floor|shelf|shelves|lamp|tyre|tyres|brakes|bike|van|engine|pump|tank|seeds|tent|stage|chairs|tables|food|drinks|wine|cake|tools|heating|oven|fridge|washing machine|gutter|gutters|tree|trees|lawn|hedge|soil|compost|greenhouse|stable|horse|cows|hens|patient|ward|medication|blood|cable|cables|lights|bedroom|sofa|carpet|tiles|marquee|licence|license|deposit|hall|kit|uniforms|key|stock|volunteers|staff|candidates|applicants|shoes|clothes|laundry|set|wings|attic|lambs|sheep|flock|users into|into the new system|props|costumes|scenery|microscope|road|garage|cellar|yard|barn|field|boat|trailer|machine|equipment",
        2: "kitchen|garden|room|caterer|venue|guests|party|keys|tickets|laptops|firewood|samples|plates|insurance|overnight|cells",
        1: "friday|monday|tuesday|thursday|saturday|sunday",
    },
    "testing": {
        7: "unit tests|accessibility problems|bugs in|unit test|integration tests|integration test|load tests|load test|smoke tests|smoke test|regression suite|"
        "test suite|penetration test|usability test|acceptance testing|acceptance test|test cases|tests for|with tests|"
        "end-to-end tests|regression tests|a/b test|security test|quality check|dry run|test coverage|beta test",
        5: "be proofread|proofreading|see where it jams|see when it falls|see if it holds|holds up|see if it works|night before|gets stuck|falls over|actually work|actually works|really works|really comes back|known standard|known sample|still add up|good kicking|good going over|be controlled by|be checked|trial run|dress rehearsal|regression test|goes off|are functioning|is functioning|test plan|test with|what breaks|still work|still works|tests|rehearsal with|for safety|for errors|response time|"
        "under load|fire drill|drill|for leaks|slow connection|in firefox|in safari|in chrome|file bugs|report bugs|what fails|holds pressure",
        3: "test of|qa|testing|edge cases|regressions|trial of|rehearsal",
        1: "test",
    },
}

# Most questions ask for research. Some ask for a decision or for numbers.
QUESTIONS: tuple[tuple[str, str], ...] = (
    (r"^(?:how|what) (?:should|shall|could|can|do|might|would) (?:we|i) .*\?", "strategy"),
    (r"^should (?:we|i) .*\?", "strategy"),
    (r"^why (?:did|do|does|are|is|has|have|was|were) .*\?", "analysis"),
    (r"^how (?:much|many) .*\b(?:we|us|our)\b.*\?", "analysis"),
    (r"^(?:which|what) .*\b(?:most|least|best|worst|more|less|fastest|highest|lowest)\b.*\?", "analysis"),
    (r"^(?:is|are) .*\b(?:worth|better|cheaper|enough)\b.*\?", "analysis"),
    (r"^(?:what|which|who|whose|where|when|how|is there|are there|does|do|is|are|can) .*\?", "research"),
)


KINDS = tuple(VERBS)
_SILENT = (0.0,) * len(KINDS)
WEIGHTS = os.path.join(os.path.dirname(__file__), "deliverable_weights.json")
PATTERN_WEIGHTS = os.path.join(os.path.dirname(__file__), "deliverable_patterns.bin")
_MOST_WORDS = 4  # in one entry
_OFTEN = 4000  # cached titles: open tasks are compared again and again


@lru_cache(_OFTEN)
def deliverable(request: str) -> str:
    weights, known = _weights(), features(request)
    scores = [sum(map(mul, known, row)) for row in weights["features"]]
    for word in spoken_words(request):
        scores = [score + more for score, more in zip(scores, weights["words"].get(word, _SILENT), strict=True)]
    scores = list(map(add, scores, _pattern_scores(request)))
    return KINDS[scores.index(max(scores))]


BUCKETS = 1 << 14
_PARTS = (4, 5)  # lengths of the word parts, in letters
_PATTERN_SHARE = 0.6  # share of the patterns in the score, beside the English tables


def patterns(request: str) -> set[int]:
    """Buckets of the request's words, word pairs and parts of words."""
    said = tokens(request)[:LONGEST]
    found = {f"w:{word}" for word in said} | {f"f:{word}" for word in said[:2]}
    found |= {f"b:{one} {two}" for one, two in pairwise(("^", *said, "$"))}
    for word in (f"<{word}>" for word in said):
        found |= {f"c:{word[at : at + size]}" for size in _PARTS for at in range(len(word) - size + 1)}
    return {crc32(pattern.encode()) % BUCKETS for pattern in found}


def _pattern_scores(request: str) -> list[float]:
    scale, table = _pattern_weights()
    found, size = patterns(request), len(KINDS)
    total = [0] * size
    for number in found:
        total = list(map(int.__add__, total, table[number * size : (number + 1) * size]))
    return [value * scale * _PATTERN_SHARE / math.sqrt(len(found)) for value in total]


@cache
def _pattern_weights() -> tuple[float, memoryview]:
    """Read the file: a line with the scale, then a byte for each bucket and kind."""
    with open(PATTERN_WEIGHTS, "rb") as file:
        return float(file.readline()), memoryview(file.read()).cast("b")


def spoken_words(request: str) -> set[str]:
    """The stems of the request, its first stem with "^", and "?" if it is a question."""
    said = [stem(word) for word in words(bare_request(straight(request)) or request)]
    return {*said, *(f"^{first}" for first in said[:1]), *("?" for _ in range(request.rstrip().endswith("?")))}


def features(request: str) -> list[float]:
    """Vector of the request, vector of its first two words, and the word scores of each kind."""
    text = bare_request(straight(request)) or request
    whole, first = Builtin().embed([text, " ".join(text.split()[:2])])
    told = word_scores(text)
    return [
        *(4 * value for value in whole[:WIDTH]),
        *(3 * value for value in first[:WIDTH]),
        *(told[kind] / 5 for kind in KINDS),
        1.0,
    ]


def word_scores(request: str) -> dict[str, int]:
    """Score of each kind by the words of the English tables."""
    text = bare_request(straight(request)).lower()
    said = _split(text)
    length, opening = _opening(said) if opens_with_verb(text) else (0, _asked_later(text))
    scores = dict.fromkeys(KINDS, 0)
    for spoken in (opening, _anywhere(said[length:]), _asked(text)):
        for kind, weight in spoken.items():
            scores[kind] += weight
    return scores


_LATER = re.compile(r"(?:[,;:?.]| -|\bso|\band) +")


def _asked_later(text: str) -> Mapping[str, int]:
    """Scores of a request that follows a report: "the sink is blocked, get someone in"."""
    parts = [bare_request(part) for part in _LATER.split(text)[1:]]
    return next((_opening(_split(part))[1] for part in reversed(parts) if opens_with_verb(part)), {})


def opens_with_verb(text: str) -> bool:
    """Whether the text begins with a verb of the table, as a request does."""
    return _opening(_split(straight(text).lower()))[0] > 0


def _opening(said: list[str]) -> tuple[int, Mapping[str, int]]:
    """The longest verb that opens the request, as its number of words and its weight for each kind."""
    return _longest(said, 0, _verbs()) or (0, {})


def _anywhere(said: list[str]) -> Mapping[str, int]:
    """The highest weight of each kind. Words inside a longer match are not counted again."""
    loudest: dict[str, int] = {}
    position = 0
    while position < len(said):
        length, found = _longest(said, position, _nouns()) or (1, {})
        for kind, weight in found.items():
            loudest[kind] = max(weight, loudest.get(kind, 0))
        position += length
    return loudest


def _longest(
    said: list[str], position: int, table: Mapping[str, Mapping[str, int]]
) -> tuple[int, Mapping[str, int]] | None:
    for length in range(min(_MOST_WORDS, len(said) - position), 0, -1):
        if found := table.get(" ".join(said[position : position + length])):
            return length, found
    return None


def _asked(text: str) -> Mapping[str, int]:
    kind = next((kind for pattern, kind in QUESTIONS if re.match(pattern, text)), None)
    return {} if kind is None else {kind: 5}


def _split(text: str) -> list[str]:
    return re.findall(r"[^\W_]+(?:['/-][^\W_]+)*", text)


class _Weights(TypedDict):
    """A row of features for each kind, and a weight of each kind for words."""

    features: list[list[float]]
    words: dict[str, list[float]]


@cache
def _weights() -> _Weights:
    with open(WEIGHTS, encoding="utf-8") as file:
        weights: _Weights = json.load(file)
    return weights


@cache
def _verbs() -> Mapping[str, Mapping[str, int]]:
    return _by_word(VERBS)


@cache
def _nouns() -> Mapping[str, Mapping[str, int]]:
    return _by_word(NOUNS)


def _by_word(table: Mapping[str, Mapping[int, str]]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for kind, weights in table.items():
        for weight, written in weights.items():
            for word in written.split("|"):
                found.setdefault(word, {})[kind] = weight
    return found
