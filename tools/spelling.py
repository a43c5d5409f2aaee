"""Check the spelling of every surface against a dictionary of English and the project's own in tools/words.txt.

`python tools/spelling.py` prints unknown words with the surface and a sentence that has them. Code, options, paths and
names in capitals are skipped.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from spellchecker import SpellChecker

import prose

if TYPE_CHECKING:
    from collections.abc import Iterator

WORDS = Path(__file__).with_name("words.txt")
_SHORTEST = 3
_FOREIGN = 3  # a text with one unknown word in three is code, or a list of words in another language
_NOT_PROSE = re.compile(
    r"https?://\S+|\]\([^)]*\)|<[^>]*>|``[^`]*``|`[^`]*`|'[^' ]*[^\w' ][^']*'|\{[^}]*\}|--?\w[\w-]*"
    r"|%\w|\\\w|noqa.*|type: ignore.*"
    r"|\S*[/_.=@:#$\[\]*^]\w\S*|\w+\("
)
_PATTERN = re.compile(r"\(\?|\\b|\w\|\w")
_WORD = re.compile(r"(?<![\w'\u2019-])([A-Za-z][a-z]+)(?:['\u2019]s)?(?![\w'\u2019])")


def words(text: str) -> Iterator[str]:
    for match in _WORD.finditer(_NOT_PROSE.sub(" ", text)):
        if len(match[1]) >= _SHORTEST:
            yield match[1].lower()


@cache
def project_words() -> frozenset[str]:
    lines = WORDS.read_text(encoding="utf-8").splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())


@cache
def english() -> SpellChecker:
    return SpellChecker()


def _known(word: str) -> bool:
    return any(stem in project_words() or stem in english() for stem in (word, word.removesuffix("s")))


def unknown(texts: list[str]) -> dict[str, str]:
    """Each word that neither dictionary has, with the text that it is in."""
    found: dict[str, str] = {}
    for text in texts:
        if _PATTERN.search(text):
            continue
        every = list(words(text))
        strange = [word for word in every if not _known(word)]
        if len(strange) * _FOREIGN < len(every) or len(every) < _FOREIGN * _SHORTEST:
            found.update({word: " ".join(text.split()) for word in strange if word not in found})
    return found


def main() -> int:
    count = 0
    for surface, texts in prose.surfaces().items():
        for word, text in sorted(unknown(texts).items()):
            at = max(0, text.lower().find(word) - 40)
            print(f"{surface}: {word}: …{text[at : at + 100]}…")
            count += 1
    if count:
        print(
            f"{count} unknown words. Correct them, or add them to {WORDS.name} if readers know them.", file=sys.stderr
        )
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
