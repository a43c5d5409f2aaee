"""YAML, but only what JSON can say, and with the line of everything.

Built from the parser's events rather than by its constructors: no aliases, no tags, no dates, no keys given twice, no
`no` that turns into false, and no nesting that could exhaust the stack.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from dibs.core.checks import JSON_DEPTH_MAX
from dibs.core.errors import PlanInvalid

if TYPE_CHECKING:
    from dibs.core.task import Json

_INT = re.compile(r"-?(?:0|[1-9][0-9]{0,300})")
_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_CONSTANTS = {"": None, "~": None, "null": None, "true": True, "false": False}
_DEEPEST = JSON_DEPTH_MAX + 4  # a plan's own levels come on top of what a value may have

Content: TypeAlias = "dict[str, Node] | list[Node] | str | int | float | bool | None"


class Node(NamedTuple):
    """A value, the line it starts at and, for a scalar, the text as it was written."""

    line: int
    content: Any
    written: str = ""

    def plain(self) -> Json:
        if isinstance(self.content, dict):
            return {key: node.plain() for key, node in self.content.items()}
        if isinstance(self.content, list):
            return [node.plain() for node in self.content]
        value: Json = self.content
        return value

    def as_written(self) -> Json:
        """The same with every scalar as text: an id such as 12e4 or 0.10 is not a number."""
        if isinstance(self.content, dict):
            return {key: node.as_written() for key, node in self.content.items()}
        if isinstance(self.content, list):
            return [node.as_written() for node in self.content]
        return None if self.content is None else self.written


def read_yaml(text: str) -> Node | None:
    """The one document in a text, or None if it is empty."""
    import yaml  # only those who write YAML pay for it

    builder = _Builder()
    try:
        text.encode()
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            builder.take(event, type(event).__name__)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = str(error).partition("\n")[0]
        raise PlanInvalid(f"not valid YAML ({what})", line=mark.line + 1 if mark else None) from None
    except UnicodeEncodeError as error:
        raise PlanInvalid("not valid UTF-8", line=text.count("\n", 0, error.start) + 1) from None
    return builder.root


class _Builder:
    """Puts events together: a stack of containers under way, and for mappings the key that waits for its value."""

    def __init__(self) -> None:
        self.root: Node | None = None
        self._open: list[Node] = []
        self._keys: list[str | None] = []
        self._documents = 0

    def take(self, event: Any, kind: str) -> None:
        line = event.start_mark.line + 1
        match kind:
            case "DocumentStartEvent":
                self._documents += 1
                if self._documents > 1:
                    raise PlanInvalid("a plan is a single document", line=line)
            case "AliasEvent":
                raise PlanInvalid("YAML aliases (*name) are not supported; write the value out", line=line)
            case "MappingStartEvent" | "SequenceStartEvent":
                self._refuse_tag(event, line)
                if len(self._open) >= _DEEPEST:
                    raise PlanInvalid(f"nested more than {_DEEPEST} deep", line=line)
                self._push(Node(line, {} if kind == "MappingStartEvent" else []))
            case "MappingEndEvent" | "SequenceEndEvent":
                node = self._open.pop()
                self._keys.pop()
                self._place(node)
            case "ScalarEvent":
                self._refuse_tag(event, line)
                self._scalar(event, line)

    def _refuse_tag(self, event: Any, line: int) -> None:
        if event.tag is not None:
            raise PlanInvalid(f"not valid YAML here: tags such as {event.tag} are not supported", line=line)

    def _push(self, node: Node) -> None:
        if self._open and isinstance(self._open[-1].content, dict) and self._keys[-1] is None:
            raise PlanInvalid("a key must be text", line=node.line)
        self._open.append(node)
        self._keys.append(None)

    def _scalar(self, event: Any, line: int) -> None:
        value = event.value if event.style else _resolved(event.value)
        if self._open and isinstance(self._open[-1].content, dict) and self._keys[-1] is None:
            self._key(value, line)
        else:
            self._place(Node(line, value, event.value))

    def _key(self, value: Json, line: int) -> None:
        if not isinstance(value, str):
            raise PlanInvalid(f"a key must be text, not {value!r}", line=line)
        if value in self._open[-1].content:
            raise PlanInvalid(f"'{value}' is given twice", line=line)
        self._keys[-1] = value

    def _place(self, node: Node) -> None:
        if not self._open:
            self.root = node
        elif isinstance(self._open[-1].content, list):
            self._open[-1].content.append(node)
        else:
            self._open[-1].content[self._keys[-1]] = node
            self._keys[-1] = None


def _resolved(text: str) -> Json:
    """What an unquoted scalar means in JSON's terms."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INT.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text
