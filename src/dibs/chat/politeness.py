"""What only makes a request polite, hesitant or chatty, and says nothing about it."""

from __future__ import annotations

import re

_LEAD = re.compile(
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
_TAIL = re.compile(
    r"(?:,|\s-)?\s+(?:please|pls|plz|thanks|thank you|thx|ta|cheers|asap|ok\?|okay\?|would you\??|will you\??|if you (?:can|could|would)|if possible|"
    r"when you (?:can|have time|get a chance)|for me|mate)[.!]*$",
    re.IGNORECASE,
)


def bare_request(sentence: str) -> str:
    """Without what only makes it polite, and without the full stop."""
    before, text = "", sentence.strip()
    while before != text:
        before = text
        text = _TAIL.sub("", _LEAD.sub("", text)).strip().rstrip(".!,;:")
    return text
