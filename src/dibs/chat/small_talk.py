"""Messages that ask for nothing: greetings, thanks, agreement. They make no task."""

from __future__ import annotations

import re

from dibs.chat.language.words import straight, words

# One of these must be there …
_CORE = frozenset(
    """thanks thank thx ty hi hello hey hiya morning evening afternoon night ok okay k great perfect awesome cool nice super
    ta cheers yes yep yeah sure bye goodbye cheers lol haha welcome wonderful excellent brilliant fantastic amazing lovely best love
    appreciate appreciated greetings understood agreed congrats congratulations sorry no nope never""".split()
)
# … and nothing but these beside it.
_AROUND = frozenset(
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


_LONGEST = 200  # characters


def is_small_talk(sentence: str) -> bool:
    said = words(sentence)
    if not said:
        return True  # an emoji, a row of dots
    if _CORE & set(said) and all(word in _CORE or word in _AROUND for word in said):
        return True
    plain = straight(sentence).strip(" .!?,-:")
    if len(plain) > _LONGEST:
        return False
    return _SAYINGS.fullmatch(plain) is not None or _ANNOUNCED.fullmatch(plain) is not None
