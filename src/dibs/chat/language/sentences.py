"""Split a message into sentences, strip polite phrases, and recognise small talk."""

from __future__ import annotations

import re

from dibs.chat.language.words import straight, words

_ABBREVIATIONS = frozenset(
    "dr mr mrs ms prof st no nr vs etc e.g i.e eg ie approx dept est fig inc ltd co jan feb mar apr jun jul aug sep oct nov dec".split()
)
_END = re.compile(r"([.!?]+[\"')]*|;)\s+")
_LIST_MARK = re.compile(r"^\s*(?:[-*•‣·+>]|\(?\d{1,2}[.):]|\(?[a-zA-Z]\)|\[[ xX]?\])\s+(?=\S)")
_BOUNDARY_WORD = 2  # a full stop after a single letter is an initial


def sentences(message: str) -> list[str]:
    """In their order, with their marks; empty lines and list marks are gone."""
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
    """Without what only makes it polite, and without the full stop."""
    before, text = "", sentence.strip()
    while before != text:
        before = text
        text = _POLITE_END.sub("", _POLITE_START.sub("", text)).strip().rstrip(".!,;:")
    return text


# One of these must be there …
_GREETINGS = frozenset(
    """thanks thank thx ty hi hello hey hiya morning evening afternoon night ok okay k great perfect awesome cool nice super
    ta cheers yes yep yeah sure bye goodbye cheers lol haha welcome wonderful excellent brilliant fantastic amazing lovely best love
    appreciate appreciated greetings understood agreed congrats congratulations sorry no nope never""".split()
)
# … and nothing but these beside it.
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

# What is to come, which says for itself what it is: "a few bits for today", "need the following on Hartley".
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
