"""A command line taken apart, its options under the names that a command has, and a command line to type."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from dibs.cli.synonyms import (
    FLAG_COMMANDS,
    FLAG_VALUES,
    FLAGS,
    FOR_AGENTS,
    IDS,
    IGNORED,
    ME,
    MISSING,
    NAMES_OF_ME,
    OPTIONS,
    PLAIN_WORDS,
    PRODUCTS,
    QUESTIONS,
    STATES,
    STATUS_OPTIONS,
    UNITS,
)
from dibs.core.messages import command

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dibs.console.arguments import Parser


class Typed(NamedTuple):
    """A parsed command line: words, options with their values, and the words after `--`."""

    words: tuple[str, ...]
    options: tuple[tuple[str, str | None], ...] = ()
    tail: tuple[str, ...] = ()

    def line(self) -> tuple[str, ...]:
        given = (part for option in self.options for part in option if part is not None)
        return (*self.words, *given, *self.tail)

    def plus(self, *options: tuple[str, str | None]) -> Typed:
        return self._replace(options=(*self.options, *options))


def apart(line: Sequence[str]) -> Typed:
    """An option takes the word behind it, unless it is known to take none; `_fit` corrects that where it is wrong."""
    end = line.index("--") if "--" in line else len(line)
    words: list[str] = []
    options: list[tuple[str, str | None]] = []
    left = list(line[:end])
    while left:
        word = left.pop(0)
        name, glued, value = word.partition("=")
        if len(word) < len("-x") or word[0] != "-" or " " in name or word[1].isdigit():
            words.append(word)
        elif glued:
            options.append((name, value))
        else:
            takes = name not in FLAGS and left and not left[0].startswith("-")
            options.append((name, left.pop(0) if takes else None))
    return Typed(tuple(words), tuple(options), tuple(line[end:]))


_PAIRS = {("in", "progress"): "in-progress", ("in", "review"): "in-review", ("on", "hold"): "on-hold"}


def joined(words: Sequence[str]) -> tuple[str, ...]:
    """`in progress` is one word, `status=done` are two."""
    out: list[str] = []
    for given in words:
        state = given.lower().replace(" ", "-")
        word = state if state in STATES else given
        if out and (out[-1].lower(), word.lower()) in _PAIRS:
            out[-1] = _PAIRS[out[-1].lower(), word.lower()]
        elif (parts := word.replace(":", "=", 1).split("=", 1))[0] in _FIELDS and len(parts) > 1:
            out += parts
        else:
            out.append(word)
    return tuple(out)


_FIELDS = {
    "status", "state", "priority", "prio", "pri", "title", "name", "label", "labels", "tag", "assignee", "owner",
    "description", "desc",
}  # fmt: skip


def match(pattern: Sequence[str], words: Sequence[str], slots: dict[str, str]) -> dict[str, str] | None:
    """The words in the slots of a pattern, or None."""
    if not pattern:
        return None if words else slots
    part, rest = pattern[0], pattern[1:]
    if part[0] == "[":
        with_it = match([part[1:-1], *rest], words, slots)
        return match(rest, words, slots) if with_it is None else with_it
    if not words:
        return None
    if part == "TEXT":
        return {**slots, part: " ".join(words)} if not rest else None
    word = words[0].strip("?!,") or words[0]
    if part.isupper():
        known = {"STATE": STATES, "PRODUCT": PRODUCTS}.get(part)
        fits = word.lower() in known if known is not None else " " not in word and word.lower() not in QUESTIONS
        return match(rest, words[1:], {**slots, part: word}) if fits else None
    return match(rest, words[1:], slots) if word.lower() in part.split("|") else None


_SECRETS = {"--token": "TOKEN", "--nonce": "NONCE", "--secret": "SECRET"}


def spelled(words: Sequence[str]) -> str:
    """A command to type, without the values of secrets and without options that no command has."""
    typed = apart(words)
    kept = (pair for pair in typed.options if not _strange(pair[0]))
    given = (part for name, value in kept for part in (name, value and _SECRETS.get(name, value)) if part is not None)
    return command("dibs", *typed.words, *given, *typed.tail).replace(r" \&\& dibs ", " && dibs ")


def has_strange_option(line: Sequence[str]) -> bool:
    """Whether an option is a typing error. The word behind it may be a secret."""
    return any(_strange(name) for name, _ in apart(line).options)


def _strange(option: str) -> bool:
    known = _vocabulary()
    glued = option[1] != "-" and len(option) <= len("-p10") and option[:2] in known
    return option not in known and not glued


@cache
def _vocabulary() -> frozenset[str]:
    """Every option that a command of dibs has, and every one that people type instead."""
    from dibs.cli.commands.completion import catalogues

    parsers = (entry.parser for catalogue in catalogues() for entry in catalogue.entries)
    own = (option for parser in parsers for option in parser._option_string_actions)  # noqa: SLF001 - argparse has no other way
    tables: list[Mapping[str, object]] = [*FLAG_VALUES.values(), *FLAG_COMMANDS.values()]
    by_command = {option for table in tables for option in table}
    rows = (option for row in OPTIONS for option in row)
    plain = (option for options in PLAIN_WORDS for option in options.split())
    return frozenset({*own, *by_command, *rows, *plain, *FLAGS, *IGNORED, *MISSING, *IDS, *UNITS, *STATUS_OPTIONS})


def with_known_options(typed: Typed, parser: Parser) -> Typed:
    """Each option under the name that the command has for it."""
    name, known = typed.words[0], parser._option_string_actions  # noqa: SLF001 - argparse has no other way
    before: list[str] = []
    behind: list[str] = []
    options: list[tuple[str, str | None]] = []
    left = list(typed.options)
    while left:
        given, value = left.pop(0)
        flag = None if given in known else FLAG_VALUES.get(name, {}).get(given)
        if flag is not None:
            left[:0] = [flag] if flag[0] else []
            behind += [] if value is None else [value]
            continue
        if given not in known and given in IGNORED:
            continue
        if given not in known and (value or "").lower() == "json" and "--json" in known:
            given, value = "--json", None
        option = known_option(name, given, known)
        if option is None and (place := _plain_word(name, given)) is not None:
            (before if place else behind).extend([] if value is None else [value])
        elif option is not None and known[option].nargs == 0:
            options.append((option, None))
            behind += [] if value is None else [value]
        elif option is not None:
            value = UNITS.get(given, "{}").format(value) if value else value
            options += [(option, each) for each in _values(option, value, several=_repeats(known[option]))]
        else:
            options.append((given, value))
    words = (name, *before, *typed.words[1:], *behind)
    return typed._replace(words=words, options=tuple(options))


def _repeats(action: object) -> bool:
    return type(action).__name__ == "_AppendAction"


def _values(option: str, value: str | None, *, several: bool) -> list[str | None]:
    if value is None:
        return [None]
    if option in FOR_AGENTS and value.lower() in NAMES_OF_ME:
        return [ME]
    parts: list[str | None] = [part.strip() for part in value.split(",") if part.strip()]
    return parts if several and len(parts) > 1 else [value]


def known_option(command: str, given: str, known: Mapping[str, object]) -> str | None:
    if given in known:
        return given
    if _plain_word(command, given) is not None and command in {"add", "comment", "search", "assign", "plan"}:
        return None
    rows = (row for row in OPTIONS if given in row)
    return next((option for row in rows for option in row if option in known), None)


def _plain_word(command: str, option: str) -> bool | None:
    for options, (commands, in_front) in PLAIN_WORDS.items():
        if option in options.split() and (command in commands.split() or commands == "*"):
            return in_front
    return None
