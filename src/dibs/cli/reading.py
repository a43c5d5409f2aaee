"""Find the command that an invalid command line means: other words, another order, other options.

A word with the same meaning runs, with a note at a terminal. For a similar or harmful meaning, the answer only names
the command to type. No guess cancels, deletes or replaces anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dibs.cli.catalogue import COMMANDS, GROUPS, PACKAGE
from dibs.cli.synonyms import (
    ARTICLES,
    ATTRIBUTES,
    BECOMES,
    FILES,
    FLAG_COMMANDS,
    FORMAT_NAMES,
    FORMATS_IN,
    FORMATS_OUT,
    HARMFUL,
    IDS,
    IN_GROUPS,
    KINDS,
    ME,
    MISSING,
    NAMES_OF_ME,
    NEAR_WORDS,
    NOUNS,
    SAME,
    SENTENCES,
    SMALL_WORDS,
    STARTS,
    STATES,
    STATUS_OPTIONS,
)
from dibs.cli.typed import Typed, apart, has_strange_option, joined, known_option, match, spelled, with_known_options
from dibs.console.commands import load, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dibs.console.arguments import Parser
    from dibs.console.commands import Group


class Reading(NamedTuple):
    """The words that were meant. `runs`: they mean the same and can do no harm; else they are only suggested."""

    words: tuple[str, ...]
    runs: bool
    why: str = ""


def read(line: Sequence[str]) -> Reading | None:
    """The meaning of an invalid command line, or None."""
    typed = apart(line)
    if asked := _how_to(typed.words):
        return Reading(("help", asked), runs=True)
    if len(typed.words) == 1 and " " in typed.words[0]:
        typed = typed._replace(words=tuple(typed.words[0].split()))
        found = _sentence(typed) or (_command(typed) if _verb(typed.words[0]) else None)
        if found is None:
            return None
    elif not typed.words:
        return None
    else:
        found = _command(_named_by_option(typed))
    if found is None:
        return _nearest(typed)
    meant, runs, why = found
    if meant.words[0] in COMMANDS:
        meant, sure, note = _fit(meant)
        runs, why = runs and sure, why or note
        if not runs and (kept := _without_unknown_options(meant, line[0])) is None:
            return None
        meant = meant if runs else kept or meant
    said = tuple(_me() if word == ME else word for word in meant.line())
    if (
        said == tuple(line)
        and said[0] == "assign"
        and len(said) == len(("assign", "ID", "AGENT"))
        and not meant.options
    ):
        return Reading((said[0], said[2], said[1]), runs=False, why="the task comes first, then the agent")
    if said == tuple(line):
        return None
    return Reading(said, runs and not _risky(said, line), why)


def _without_unknown_options(meant: Typed, typed: str) -> Typed | None:
    """An unknown option may carry a secret, so no suggestion repeats it; of a known command, the error names it."""
    known = parser_of(meant.words[0])._option_string_actions  # noqa: SLF001 - argparse has no other way
    kept = tuple(each for each in meant.options if each[0] in known)
    return None if len(kept) < len(meant.options) and typed in COMMANDS else meant._replace(options=kept)


def _how_to(words: Sequence[str]) -> str | None:
    """The command that a question such as `how do I finish a task` is about."""
    said = [word.strip("?!,").lower() for word in " ".join(words).split()]
    if said[:1] != ["how"] or said[1:2] not in (["do"], ["to"], ["can"], ["does"]):
        return None
    return next((word for word in said[2:] if _verb(word) and word not in NOUNS | {"do", "me"}), None)


def _me() -> str:
    from dibs.identity import agent_name

    return agent_name()


def read_group(found: Group, rest: Sequence[str]) -> Reading | None:
    """The command under a word such as `agent`: `token new` is `token create`, `agent bob` is `agent show bob`."""
    name, table = found.name, found.table
    if not rest:
        return None
    if rest[0] in table:
        return _group_options(found, rest)
    word, *others = rest
    meant = IN_GROUPS.get(word.lower(), "")
    meant = meant if meant in table else IN_GROUPS.get(meant, "")
    if meant in table:
        return Reading((name, meant, *others), runs=meant not in {"remove", "revoke"}, why=f"here it is '{meant}'")
    if nearest(word.lower(), table) is None and "show" in table and not others and word[:1] != "-":
        return Reading((name, "show", word), runs=False, why=f"There is no command '{name} {word[:40]}'")
    return None


def _group_options(found: Group, rest: Sequence[str]) -> Reading | None:
    """The same command under a word with the options that it has: `token create bob` is `token create --agent bob`."""
    parser = found.parser(rest[0])
    known = parser._option_string_actions  # noqa: SLF001 - argparse has no other way
    typed = with_known_options(apart(rest), parser)
    takes_words = any(not action.option_strings for action in parser._actions)  # noqa: SLF001 - same
    if len(typed.words) > 1 and not takes_words and "--agent" in known:
        typed = typed._replace(words=typed.words[:1]).plus(("--agent", typed.words[1]))
    said = (found.name, *typed.line())
    strange = any(option not in known for option, _ in typed.options)
    return None if strange or said == (found.name, *rest) else Reading(said, runs=True)


def unknown(line: Sequence[str]) -> str:
    """Why a command line means nothing here, and where to look."""
    words = apart(line).words
    message = f"There is no command '{words[0][:40] if words else line[0][:40]}'."
    if len(words) > 2 or (words and " " in words[0]):  # noqa: PLR2004 - a sentence, not a command with its argument
        return f"{message} To add it as a task: {spelled(('add', ' '.join(words)))}"
    task = f"'{spelled(('show', words[0]))}' shows a task, " if len(words) == 1 and not has_strange_option(line) else ""
    return f"{message} 'dibs help' lists the commands, {task}'{spelled(('search', *words[:1]))}' looks in the tasks."


def _risky(said: Sequence[str], line: Sequence[str]) -> bool:
    """A guessed command that ends or replaces something, or that would run until it is stopped."""
    return said[0] in HARMFUL | STARTS and said[0] != line[0]


def _nearest(typed: Typed) -> Reading | None:
    """The nearest command to a typing error, with the given words."""
    known = {*COMMANDS, *GROUPS, *SAME, *NEAR_WORDS} - {typed.words[0].lower()}
    meant = nearest(typed.words[0].lower(), known)
    if meant is None or _verb(typed.words[0]):
        return None
    why = f"There is no command '{typed.words[0][:40]}'"
    rest = read([meant, *typed.line()[1:]]) if meant not in GROUPS else None
    return Reading(rest.words if rest else (meant, *typed.line()[1:]), runs=False, why=why)


_Found = tuple[Typed, bool, str]


def _command(typed: Typed) -> _Found | None:
    """The command's own name in front, whatever the order of the words was."""
    words = typed.words
    if words[0] == "dibs" and len(words) > 1:
        return _command(typed._replace(words=words[1:]))
    first = words[0].lower()
    if first in NOUNS and len(words) > 1 and " " in words[-1] and not _verb(words[1]):
        return typed._replace(words=("add", *words[1:])), False, ""
    if first in NOUNS and len(words) > 1:
        named = ("show", words[1])
        return _command(typed._replace(words=words[1:] if _verb(words[1]) or len(words) > len(named) else named)) or (
            _command(typed._replace(words=named))
        )
    for sentence in (words, _without_fillers(words)):
        if sentence and (found := _sentence(typed._replace(words=sentence))) is not None:
            return found
    behind = words[1].lower() if len(words) > 1 else ""
    if behind and not _verb(first) and _verb(behind) and behind not in NOUNS and (first in KINDS or not _adds(behind)):
        return _command(typed._replace(words=(words[1], first if first in KINDS else words[0], *words[2:])))
    return _by_first_word(typed, first)


def _by_first_word(typed: Typed, first: str) -> _Found | None:
    words = typed.words
    if first in KINDS and len(words) > 1:
        return typed._replace(words=("add", *words)), True, ""
    if first in COMMANDS or first in GROUPS:
        return typed._replace(words=(first, *words[1:])), True, ""
    if first in SAME:
        return _renamed(typed, first), True, ""
    if first in NEAR_WORDS:
        phrase, why = NEAR_WORDS[first]
        if phrase.endswith("-- COMMAND"):
            run = typed.tail[1:] or tuple(" ".join(typed.words[1:]).split()) or ("COMMAND",)
            return Typed(("work",), typed.options, ("--", *run)), False, f"'{first}' is not a dibs command: {why}"
        takes = phrase.split()[0] not in {"list", "prune", "serve", "init", "version", "doctor", "webhook", "export"}
        given = typed if takes else typed._replace(words=typed.words[:1])
        return _filled(phrase, given), False, f"'{first}' is not a dibs command: {why}"
    suffix = first.rpartition(".")[2] if "." in first else ""
    if suffix in FILES:
        return typed._replace(words=(*FILES[suffix], *words)), False, f"'{first}' is a file"
    parts = tuple(part for part in first.replace("_", "-").split("-") if part)
    if len(parts) > 1 and _verb(parts[0]):
        return _command(typed._replace(words=(*parts, *words[1:])))
    return None


def _named_by_option(typed: Typed) -> Typed:
    """`show --id parser`; but the id of a new task is an option."""
    if _adds(typed.words[0]):
        return typed
    ids = tuple(value for option, value in typed.options if option in IDS and value)
    left = tuple(pair for pair in typed.options if pair[0] not in IDS or not pair[1])
    return typed._replace(words=(typed.words[0], *ids, *typed.words[1:]), options=left)


def _adds(word: str) -> bool:
    return word.lower() == "add" or SAME.get(word.lower()) == "add" or word.lower() in NOUNS


def _verb(word: str) -> bool:
    name = word.lower()
    return name in COMMANDS or name in GROUPS or name in SAME or name in NEAR_WORDS


def _renamed(typed: Typed, first: str) -> Typed:
    """Some names mean another command when a task is named with them."""
    rest = tuple(word for word in typed.words[1:] if word.lower() not in NOUNS | ARTICLES)
    meant = SAME[first]
    if meant == "show" and not rest:
        meant = "list"
    elif not rest and not typed.options and first in STATES and meant in {"done", "fail", "block"}:
        meant = f"list --status {STATES[first]}"
    elif meant in {"graph", "status"} and len(rest) == 1:
        meant = "show"
    elif meant == "top" and len(rest) == 1:
        meant = "log"
    elif meant == "list" and rest and first in {"task", "issue", "ticket", "todo", "item", "job"}:
        meant = "show"
    if meant.endswith(" list") and rest:
        return typed._replace(words=(meant.split()[0], *rest))
    return _filled(meant, typed)


def _filled(phrase: str, typed: Typed) -> Typed:
    """A phrase completed with the typed words: ID and TITLE are the first of them, the others follow."""
    rest = list(typed.words[1:])
    said = [rest.pop(0) if word in {"ID", "TITLE"} and rest else word for word in phrase.split()]
    made = apart(said)
    return Typed((*made.words, *rest), (*made.options, *typed.options), made.tail or typed.tail)


def _without_fillers(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(word for word in words if word.lower() not in ARTICLES | NOUNS)


# Sentences


def _sentence(typed: Typed) -> _Found | None:
    words = joined(typed.words)
    for pattern, meant in SENTENCES:
        slots = match(pattern.split(), words, {})
        if slots is not None and not (pattern.startswith("ID") and _verb(slots["ID"])):
            return _composed(meant, slots, typed)
    return None


def _composed(meant: str, slots: Mapping[str, str], typed: Typed) -> _Found:
    """The command of a sentence, with what stood in its slots."""
    first, *others = meant.split()
    state = STATES[slots["STATE"].lower()] if "STATE" in slots else ""
    parts = BECOMES[state].split() if first == "STATE" else [first.rstrip("?")]
    words, options = [], list(typed.options)
    parts += others
    while parts:
        part = parts.pop(0)
        if part.startswith("--"):
            value = parts.pop(0) if parts and not parts[0].startswith("--") else None
            options.append((part, state if value == "STATE" else slots.get(value or "", value)))
        else:
            words.append(slots.get(part, part))
    found = Typed(tuple(words), tuple(options), typed.tail)
    if words[0] not in COMMANDS and words[0] not in GROUPS:
        return _command(found) or (found, False, "")
    return found, not first.endswith("?"), ""


# What a command takes


def parser_of(name: str) -> Parser:
    return load(PACKAGE, COMMANDS, name).parser(f"dibs {name}", COMMANDS[name][1], _add_shared)


def _add_shared(parser: Parser) -> None:
    from dibs.cli.command import add_shared

    add_shared(parser)


def _fit(typed: Typed) -> _Found:
    """The same command with its own options and in its own order; whether that is sure, and else why not."""
    name = typed.words[0]
    if name == "edit" and (moved := _status_by_edit(typed)) is not None:
        return moved
    if (other := _other_command(typed)) is not None:
        return _fit(other)
    parser = parser_of(name)
    lacking = [MISSING[option] for option, _ in typed.options if option in MISSING]
    if lacking:
        left = tuple(pair for pair in typed.options if pair[0] not in MISSING)
        return _fit(typed._replace(options=left))[0], False, lacking[0]
    typed = with_known_options(typed, parser)
    arrange = _ARRANGED.get(name)
    if arrange is not None:
        return arrange(typed, parser)
    words = tuple(word for word in typed.words[1:] if word.lower() not in NOUNS | ARTICLES) or typed.words[1:]
    if words and {word.lower() for word in words} & NOUNS:
        words = ()
    if words and all(word in {".", "here"} for word in words):
        words = ()
    takes = [action for action in parser._actions if not action.option_strings]  # noqa: SLF001 - argparse has no other way
    fits = words if len(words) <= len(takes) or any(action.nargs in {"*", "+"} for action in takes) else typed.words[1:]
    return typed._replace(words=(name, *fits)), True, ""


def _other_command(typed: Typed) -> Typed | None:
    """`show ID --web` is `open ID`."""
    flags = FLAG_COMMANDS.get(typed.words[0], {})
    for option, value in typed.options:
        if option in flags:
            left = tuple(pair for pair in typed.options if pair[0] != option)
            name, _, other = flags[option].partition(" ")
            if other:
                return typed._replace(words=(name, *typed.words[1:]), options=((other, value), *left))
            return typed._replace(words=(name, *typed.words[1:], *([] if value is None else [value])), options=left)
    return None


def _status_by_edit(typed: Typed) -> _Found | None:
    """`edit ID --status done` is `done ID`: most statuses are reached by a command of their own."""
    for option, value in typed.options:
        status = STATES.get((value or "").lower())
        if option in STATUS_OPTIONS and status is not None and status not in {"ready", "backlog"}:
            others = tuple(pair for pair in typed.options if pair != (option, value))
            return _fit(typed._replace(words=(BECOMES[status], *typed.words[1:]), options=others))
    return None


# The order of words, command by command


def _text_last(typed: Typed, _parser: Parser) -> _Found:
    """`comment ID the rest` needs no quotes."""
    name, *rest = typed.words
    if rest and rest[0].lower() in NOUNS | {"on", "to"} and len(rest) > 2:  # noqa: PLR2004 - an id and a text follow
        rest = rest[1:]
    return typed._replace(words=(name, *rest[:1], *([" ".join(rest[1:])] if rest[1:] else []))), True, ""


def _title(typed: Typed, _parser: Parser) -> _Found:
    """`add the rest` needs no quotes; `+word` is a label and `priority:high` an option, as in Taskwarrior."""
    words = list(typed.words[1:])
    options = list(typed.options)
    lead = 0
    while lead < len(words) - 1 and words[lead].lower() in ARTICLES | {"into", "new"}:
        lead += 1
    if len(words) > lead + 1 and words[lead].lower() in NOUNS:
        words = words[lead + 1 :]
    elif len(words) > 1 and words[0].lower() in KINDS and " " in words[1]:
        options.append(("--category", words.pop(0).lower()))
    title: list[str] = []
    for word in words:
        key, mark, value = word.partition(":")
        if word[0:1] == "+" and word[1:].isalpha():
            options.append(("--label", word[1:]))
        elif mark and value and key in ATTRIBUTES and " " not in word:
            options.append((ATTRIBUTES[key], value))
        else:
            title.append(word)
    if len(title) > 1 and all(" " in word for word in title):
        return Typed(("add", title[0]), tuple(options), ("&&", "dibs", "add", title[1])), False, "a task has one title"
    return Typed(("add", *([" ".join(title)] if title else [])), tuple(options), typed.tail), True, ""


def _one_task(typed: Typed, parser: Parser) -> _Found:
    """One id; the rest is the reason. Several ids are several commands."""
    name, *rest = typed.words
    said = {word.lower() for word in rest}
    if name == "show" and said & NOUNS and said <= NOUNS | ARTICLES:
        return _fit(typed._replace(words=("list", *rest)))
    if name == "undo" and rest:
        return typed._replace(words=(name,)), False, "'dibs undo' takes back your last change, of any task"
    rest = [word for word in rest if word.lower() not in NOUNS] if len(rest) > 1 else rest
    task, extra = rest[:1], rest[1:]
    typed = typed._replace(words=(name, *task))
    if not extra and name == "block" and not any(option == "--reason" for option, _ in typed.options):
        return typed.plus(("--reason", "WHY")), False, "a blocked task needs a reason"
    if not extra:
        return typed, True, ""
    known = parser._option_string_actions  # noqa: SLF001 - argparse has no other way
    option = next((each for each in ("--note", "--reason") if each in known), None)
    says_why = extra[0].lower().rstrip(":") in _BECAUSE
    if option is not None and (says_why or _is_prose(extra)):
        reason = " ".join(extra[1:] if says_why and len(extra) > 1 else extra)
        return typed.plus((option, reason)), True, ""
    if option is not None and name in {"block", "fail"}:
        return typed.plus((option, " ".join(extra))), False, f"'dibs {name}' takes one task and a reason"
    if says_why:
        return typed, True, ""
    if option is not None and len(extra) > _IDS_AT_ONCE:
        return typed.plus((option, " ".join(extra))), False, f"'dibs {name}' takes one task; a note needs an option"
    return (
        Typed((name, *task), typed.options, ("&&", "dibs", name, *extra[:1])),
        False,
        f"'dibs {name}' takes one task",
    )


def _is_prose(words: Sequence[str]) -> bool:
    """Whether words are a text and not ids: quoted, or with one of the small words of a language."""
    return any(" " in word or word.lower().strip(".,!?") in SMALL_WORDS for word in words)


_IDS_AT_ONCE = 2  # more words are rather a text
_BECAUSE = frozenset({"because", "reason", "with", "since", "note", "as", "-", "for"})
_FILLERS = frozenset({"next", "one", "any", "something", "work", "now", "for", "available"}) | NOUNS | ARTICLES


def _claiming(typed: Typed, _parser: Parser) -> _Found:
    kept = typed.words[1:]
    said = {word.lower() for word in kept}
    if said <= _FILLERS and said - ARTICLES:  # 'a' alone is an id that does not exist, not a wish for any task
        kept = ()
    if len(kept) > 1 and kept[0].lower() in ARTICLES and kept[1].lower() in NOUNS:
        kept = kept[1:]
    if len(kept) > 1 and kept[0].lower() in NOUNS:
        kept = kept[1:]
    return typed._replace(words=("claim", *kept)), True, ""


def _listing(typed: Typed, parser: Parser) -> _Found:
    """`list done`, `list my tasks`, `list by ann`, or a text to look for."""
    rest = [word for word in typed.words[1:] if word.lower() not in NOUNS | {"the", "a", "only", "tasks?"}]
    options = [("--status", _statuses(value) if option == "--status" else value) if option == "--status"
               else (option, value) for option, value in typed.options]  # fmt: skip
    text: list[str] = []
    while rest:
        word = rest.pop(0)
        lower = word.lower()
        if lower == "open":
            continue
        if lower in STATES:
            options.append(("--status", STATES[lower]))
        elif lower in {"mine", "my", "me", "@me"}:
            options.append(("--held-by", ME))
        elif lower in {"unfinished", "waiting"}:
            continue
        elif lower in {"all", "everything", "*"}:
            options.append(("--all", None))
        elif lower in {"by", "for", "of", "held-by", "assigned"} and rest:
            who = rest.pop(-1)
            options.append(("--held-by" if lower in {"by", "held-by"} else "--assigned-to", who))
            rest.clear()
        else:
            text.append(word)
    if text:
        strange = tuple(each for each in typed.options if each[0] not in parser._option_string_actions)  # noqa: SLF001
        return Typed(("search", " ".join(text)), strange), False, "'dibs list' takes no words"
    return Typed(("list",), tuple(options), typed.tail), True, ""


def _statuses(value: str | None) -> str:
    """The statuses by the names that dibs has for them."""
    words = (word.strip() for word in (value or "").split(","))
    return ",".join(STATES.get(word.lower(), word) for word in words)


def _linking(typed: Typed, _parser: Parser) -> _Found:
    name, *rest = typed.words
    if len(rest) == 2 and not typed.options:  # noqa: PLR2004 - two tasks, and nothing that says which waits
        why = f"which one waits? This makes {rest[0]} wait for {rest[1]}"
        return Typed((name, rest[0]), (("--blocked-by", rest[1]),)), False, why
    return typed, True, ""


def _editing(typed: Typed, parser: Parser) -> _Found:
    """`edit ID priority 1`, `edit ID title=…`."""
    known = parser._option_string_actions  # noqa: SLF001 - argparse has no other way
    name, *rest = joined(typed.words)
    rest = rest[1:] if len(rest) > 1 and rest[0].lower() in NOUNS else rest
    options: list[tuple[str, str | None]] = []
    extra = [word for word in rest[1:] if word.lower() != "set"]
    while extra:
        option = known_option(name, f"--{extra.pop(0).lower().rstrip(':=').lstrip('-')}", known)
        extra = extra[1:] if extra and extra[0] in {"to", "=", "is"} else extra
        if option is None or not extra:
            return typed, True, ""
        options.append((option, extra.pop(0)))
    return typed._replace(words=(name, *rest[:1])).plus(*options), True, ""


def _assigning(typed: Typed, _parser: Parser) -> _Found:
    name, *rest = typed.words
    rest = [word for word in rest if word.lower() not in NOUNS | {"to", "for"}]
    rest = [ME if word.lower() in NAMES_OF_ME else word for word in rest]
    return typed._replace(words=(name, *rest)), True, ""


def _formatted(typed: Typed, _parser: Parser) -> _Found:
    """`import github issues.json`."""
    name, *rest = typed.words
    named = {"import": ("--from", FORMATS_IN), "export": ("--to", FORMATS_OUT)}[name]
    option, known = named
    formats = {**{word: word for word in known}, **{word: to for word, to in FORMAT_NAMES.items() if to in known}}
    named_so = tuple((each, formats.get((value or "").lower(), value)) if each == option else (each, value)
                     for each, value in typed.options)  # fmt: skip
    if any(each == option for each, _ in named_so):
        return typed._replace(options=named_so), True, ""
    if rest and rest[0].lower() in formats and (len(rest) > 1 or name == "export"):
        return typed._replace(words=(name, *rest[1:])).plus((option, formats[rest[0].lower()])), True, ""
    return typed, True, ""


_ONE_TASK = (
    "done", "close", "fail", "block", "review", "cancel", "release", "renew", "pause", "resume", "unblock", "approve",
    "rework", "reopen", "show", "log", "open", "undo",
)  # fmt: skip


def _looking(typed: Typed, _parser: Parser) -> _Found:
    """`status ID` and `graph ID` are about one task."""
    rest = tuple(word for word in typed.words[1:] if word.lower() not in NOUNS | ARTICLES)
    return typed._replace(words=("show", *rest) if len(rest) == 1 else (typed.words[0], *rest)), True, ""


_ARRANGED: dict[str, Callable[[Typed, Parser], _Found]] = {
    "add": _title,
    "comment": _text_last,
    "search": _text_last,
    "claim": _claiming,
    "list": _listing,
    "status": _looking,
    "graph": _looking,
    "link": _linking,
    "unlink": _linking,
    "edit": _editing,
    "import": _formatted,
    "export": _formatted,
    "assign": _assigning,
    **dict.fromkeys(_ONE_TASK, _one_task),
}
