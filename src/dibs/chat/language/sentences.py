"""Split a message into sentences, strip polite phrases, and recognise small talk."""

from __future__ import annotations

import re
from typing import NamedTuple

from dibs.chat.language.words import straight, words

_ABBREVIATIONS = frozenset(
    "dr mr mrs ms prof st no nr vs etc e.g i.e eg ie approx dept est fig inc ltd co jan feb mar apr jun jul aug sep oct nov dec".split()
)
_END = re.compile(r"([.!?]+[\"')]*|;)\s+")
_LIST_MARK = re.compile(r"^\s*(?:[-*•‣·+>]|\(?\d{1,2}[.):]|\(?[a-zA-Z]\)|\[[ xX]?\])\s+(?=\S)")
_BOUNDARY_WORD = 2  # a full stop after a single letter is an initial


def sentences(message: str) -> list[str]:
    """The sentences in order, with their punctuation, without empty lines and list marks."""
    found: list[str] = []
    for line in message.splitlines():
        text = straight(_LIST_MARK.sub("", line))
        found += _of_line(text) if text else []
    return found


def _of_line(text: str) -> list[str]:
    found: list[str] = []
    start = 0
    for end in _END.finditer(text):
        if not _is_abbreviation(text[start : end.start()], end.group(1)):
            found.append(text[start : end.end(1)].rstrip(";").strip())
            start = end.end()
    found.append(text[start:].strip())
    return [sentence for sentence in found if sentence]


def _is_abbreviation(before: str, mark: str) -> bool:
    if mark != ".":
        return False
    last = before.rsplit(None, 1)[-1].lower() if before.split() else ""
    return last in _ABBREVIATIONS or (len(last) < _BOUNDARY_WORD and last.isalpha())


class Parted(NamedTuple):
    """A message without its quotations. `quoted` are code, mails, logs and traces."""

    said: str
    quoted: tuple[str, ...] = ()


_FENCE = re.compile(
    r"^ {0,3}(?:```|~~~|\'\'\'(?=\w*$)).*?(?:^ {0,3}(?:```|~~~|\'\'\')\s*$|\Z)", re.MULTILINE | re.DOTALL
)
_FORWARDED = re.compile(
    r"^(?:>+ ?)?(?:-{2,}.*(?:forwarded|weitergeleitet|original|transf[ée]r|reenviad).*"
    r"|(?:from|von|de|date|datum|fecha|subject|betreff|objet|asunto|sent|gesendet|envoyé|enviado|cc): .+)$",
    re.IGNORECASE | re.MULTILINE,
)
_QUOTED_LINE = re.compile(
    r"^(?:>|\s+at [\w$.<>]+\(|\s+File \".*\", line \d|Traceback \(most recent call last\)|Caused by: "
    r"|(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception)\b|(?:fatal|error|warning|panic|npm ERR!)[:\[ ]"
    r"|\[?\d{4}-\d\d-\d\d[T ]\d\d:|\d\d:\d\d:\d\d|\$ \w|[+-]{3} [ab]/|@@ |(?:GET|POST|PUT|DELETE|PATCH) \S*/"
    r"|\s{4,}\S.*[;{}()=]|(?:def|class|import|from|function|const|let|var|public|private|SELECT|INSERT|UPDATE) .*[:;{(*])"
)
_WHOLE_QUOTE = re.compile(r"\s*[\"“„«].{40,}[\"”“»]\s*", re.DOTALL)


def parted(message: str) -> Parted:
    """Separate quotations. After the header of a mail, the rest of the message belongs to the mail."""
    quoted = _FENCE.findall(message)
    rest = _FENCE.sub("\n", message)
    if _WHOLE_QUOTE.fullmatch(rest):
        return Parted("", (*quoted, rest.strip()))
    header = _FORWARDED.search(rest)
    if header and "\n" in rest[header.start() :].strip():
        quoted.append(rest[header.start() :])
        rest = rest[: header.start()]
    if "\n" in rest.strip() and any(map(_QUOTED_LINE.match, rest.splitlines())):
        lines = rest.splitlines()
        quoted.append("\n".join(line for line in lines if _QUOTED_LINE.match(line)))
        rest = "\n".join(line for line in lines if not _QUOTED_LINE.match(line))
    return Parted(rest.strip(), tuple(one.strip("\n") for one in quoted if one.strip()))


_TAKEN_BACK = re.compile(
    r"(?:(?:no|oh|ah|ok|sorry|actually|wait|nein|ach|non|bah|ay|uy)[,.! ]+)*"
    r"(?:scratch (?:that|it)|forget (?:it|that|i said (?:anything|that))|never ?mind|nvm|ignore (?:that|this)|strike that|on second thought,? no"
    r"|vergiss (?:es|das)|vergesst (?:es|das)|doch nicht|hat sich erledigt|lass gut sein|streich das"
    r"|oublie(?:z)?(?: ça| ca)?|laisse(?:z)? tomber|en fait non"
    r"|olv[ií]d(?:a|alo|elo|adlo)|d[eé]jalo|al final no|nada,? d[eé]jalo)"
    r"(?: (?:please|pls|bitte|stp|svp|por favor|one|last one|actually|then))?[.! ]*",
    re.IGNORECASE,
)


def takes_back(message: str) -> bool:
    """Whether the whole message withdraws the request just before."""
    return _TAKEN_BACK.fullmatch(straight(message)) is not None


_POLITE_START = re.compile(
    r"^(?:please(?: to)?|pls|plz|also|and|so|ok(?:ay)?|hi|hiya|hey|hello|good (?:day|morning|evening)|morning|well|oh|right|btw|by the way|finally|"
    r"lastly|additionally|in addition|besides|plus|first(?:ly)?(?: of all)?|second(?:ly)?|third(?:ly)?|now|maybe|perhaps|actually|kindly|just|"
    r"obviously|ideally|tomorrow|tmrw|tonight|today|asap|quick one|one more thing|last thing|unrelated(?:ly)?|"
    r"(?:can|could|would|will) (?:you|somebody|someone|anyone|anybody|one of you)(?: (?:please|kindly|also|just))*|(?:can|could|shall|may) (?:we|i)|"
    r"be so (?:kind|good)(?: as)? to|would you mind|(?:i |we )?would need|(?:i|we) (?:need|want|wish|would like) that|"
    r"i (?:need|want|would like|'d like|ask) you to|i(?:'d| would) (?:like|love|want) (?:that you|you to|to)|i am wanting to|i was thinking(?: that)?|"
    r"(?:i|we) (?:really |also |would )?(?:need|want|have|wish) to|(?:i'd|we'd|i would|we would) (?:like|love) (?:you )?to|"
    r"(?:we|you|i|somebody|someone) (?:should|must|needs? to|has to|have to|ought to)|you (?:need|have) to|let's|lets|let us|"
    r"(?:don't|do not) forget to|remember to|be sure to|make sure to|help me(?: to)?|go ahead and|todo|to do|task|urgent|"
    r"it would be (?:great|nice|good) (?:if (?:you|we|somebody) could|to)|do me a favou?r and|i was wondering if you could|if you (?:could|can|would)|"
    r"while you'?re at it|when you (?:have|get) (?:a )?(?:time|moment|chance)|hi (?:team|all|there|everyone|folks))(?:[,:!]|\s-)?\s+(?=\S)",
    re.IGNORECASE,
)
_POLITE_END = re.compile(
    r"(?:,|\s-)?\s+(?:please|pls|plz|thanks|thank you|thx|ta|cheers|asap|ok\?|okay\?|would you\??|will you\??|if you (?:can|could|would)|if possible|"
    r"when you (?:can|have time|get a chance)|for me|mate)[.!]*$",
    re.IGNORECASE,
)


def bare_request(sentence: str) -> str:
    """The request without polite phrases and the full stop."""
    before, text = "", sentence.strip()
    while before != text:
        before = text
        text = _POLITE_END.sub("", _POLITE_START.sub("", text)).strip().rstrip(".!,;:")
    return text


# One of these words is required …
_GREETINGS = frozenset(
    """thanks thank thx ty hi hello hey hiya morning evening afternoon night ok okay k great perfect awesome cool nice super
    ta cheers yes yep yeah sure bye goodbye cheers lol haha welcome wonderful excellent brilliant fantastic amazing lovely best love
    appreciate appreciated greetings understood agreed congrats congratulations sorry no nope never""".split()
)
# … and only these are allowed beside it.
_BESIDE_GREETINGS = frozenset(
    """you so much kindly very a lot all everyone everybody team folks there guys good day to the and for your help it that that's
    this is was will be do i'm i am we we're you're are really again my friend got sounds works well done job work again
    later soon see have evening mind problem worries worry too also both just one with me us of course in advance idea
    what whats what's up how how's going doing today things everything fine here now""".split()
)
_SAYINGS = re.compile(
    r"(?:how are (?:you|things)|how(?:'s| is) it going|how have you been|what's up|see you|talk (?:to you )?(?:soon|later)|got it|"
    r"no (?:problem|worries)|you(?:'re| are) (?:the best|great|welcome|amazing)|well done|good (?:job|work|idea|point|day|morning|evening|afternoon|night)|never ?mind|"
    r"sounds (?:good|great|fine)|that(?:'s| is) (?:all|it|great|fine|perfect)|take care|have a (?:nice|good|great) .{0,20}|"
    r"(?:i'?m|we'?re) (?:back|here|good|fine|done)|just (?:checking|kidding)|wait,? what|what are (?:these|those)|test(?:ing)? 1 ?2 ?3)\b"
    r".{0,24}",
    re.IGNORECASE,
)

# Announcements of requests: "a few bits for today", "need the following on Hartley".
_ANNOUNCED = re.compile(
    r"(?:so |right |ok |okay |and |morning |hi |hey )*(?:(?:i|we)(?:'ve| have)?(?: got)? )?(?:here(?:'s| are| is| come) |need |want |please do |got )?"
    r"(?:(?:just |a |the |my )*(?:few|couple of|some|two|three|four|five|six|several|handful of|\d+) (?:more |other |quick |small |little )*"
    r"(?:bits(?: and (?:bobs|pieces))?|things?|jobs|tasks|items|points|requests|asks|to-?dos)|the following(?: things| tasks| items)?|(?:my |the |today's )?(?:to-?do )?list)"
    r"(?: (?:for|on|about|re|to do|please|today|tomorrow|this week|from|that need)\b.{0,40})?",
    re.IGNORECASE,
)


_LONGEST_SMALL_TALK = 200  # characters


def is_small_talk(sentence: str) -> bool:
    said = words(sentence)
    if not said:
        return True  # an emoji, a row of dots
    if _GREETINGS & set(said) and all(word in _GREETINGS or word in _BESIDE_GREETINGS for word in said):
        return True
    plain = straight(sentence).strip(" .!?,-:")
    if len(plain) > _LONGEST_SMALL_TALK:
        return False
    return _SAYINGS.fullmatch(plain) is not None or _ANNOUNCED.fullmatch(plain) is not None
