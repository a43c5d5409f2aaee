"""A message cut into sentences: by lines, list marks and full stops, but not after 'Dr.' or inside '2.4'."""

from __future__ import annotations

import re

from dibs.chat.language.words import straight

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
