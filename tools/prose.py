"""Measure how readable our English is: habits that make readers stumble, per 1,000 words of each surface.

`python tools/prose.py` prints a line per surface and fails where a surface is above its limit. `--show N` adds the N
sentences with the most habits, and PATH limits both to the files below it. docs/contributing/language.md has the rules.
A low rate is necessary, not sufficient: read the text aloud as well.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 1.0
COMMITS = 50
_SENTENCE = 4
_LONGEST_PHRASE = 20  # words without punctuation; more are a list of words
# Surfaces that are still being rewritten: their rate may only fall.
CEILINGS: dict[str, float] = {
    f"last {COMMITS} commits": 2.0,
}
_CLAUSE = r"(?:^|[.;:,(]\s*|\b(?:and|but|of|for|with|to|by|that|than|from|is|are|says?|in|on|at)\s)"
_VERB = r"(?:is|are|was|were|has|have|had|does|do|did|may|can|would|[a-z]+s)"

# Habit: pattern. Each is one way to leave out the actor or the thing.
HABITS = {
    "who-clause": re.compile(rf"(?<![?\w])(?:\b[Ww]hoever\b|(?:^|[.;:,(]\s*)[Ww]ho {_VERB}\b)", re.MULTILINE),
    "what-clause": re.compile(
        rf"{_CLAUSE}[Ww]hat(?:ever)? (?:it|they|we|you|comes|came|waits|becomes|became|there|people|others|{_VERB})\b",
        re.MULTILINE,
    ),
    "somebody, nobody": re.compile(r"\b(?:some|no|any|every)body\b", re.IGNORECASE),
    "tell, told": re.compile(r"\b(?:tells?|told|telling)\b", re.IGNORECASE),
    "archaic": re.compile(
        r"\b(?:anew|besides|meanwhile|thereof|hitherto|at hand|by itself|of its own|as (?:it is|they are)|in turn"
        r"|the like)\b",
        re.IGNORECASE,
    ),
    "stands, lies, mends": re.compile(
        r"\b(?:stands?|lies|lie|befall\w*|befell|mend\w*|put right|made of|brings along|draw\w* along)\b", re.IGNORECASE
    ),
    "said, speaks": re.compile(
        r"\b(?:(?:is|are|was|were) said|say(?:s|ing)? (?:nothing|so)|sp(?:eak|eaks|oke) of|came of|comes of)\b",
        re.IGNORECASE,
    ),
    "in the midst, for ever": re.compile(
        r"\b(?:in (?:its|the|their) midst|for ever|for the while|up for grabs|rightly)\b", re.IGNORECASE
    ),
    "in the way of": re.compile(
        r"\b(?:in the way of|is in the way|are in the way|goes on with|is to be had|has not any|have not any)\b",
        re.IGNORECASE,
    ),
}


def habits(text: str) -> dict[str, int]:
    """How often each habit occurs in a text."""
    return {name: len(pattern.findall(text)) for name, pattern in HABITS.items()}


def rate(text: str) -> float:
    words = len(text.split())
    return 1000 * sum(habits(text).values()) / words if words else 0.0


def plain(markdown: str) -> str:
    """Markdown without code, which is not prose."""
    return re.sub(r"`[^`]*`", "X", re.sub(r"```.*?```", " ", markdown, flags=re.DOTALL))


def docstrings(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        match _docstring(node):
            case ast.Constant(value=str(text)):
                yield text


def comments(source: str) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string.lstrip("# ")


def messages(source: str) -> Iterator[str]:
    """Literals that look like sentences: errors, hints, help and answers."""
    tree = ast.parse(source)
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    inner |= {id(value) for node in ast.walk(tree) if (value := _docstring(node)) is not None}
    for node in ast.walk(tree):
        text = "" if id(node) in inner else _literal(node)
        if len(text.split()) >= _SENTENCE and not _is_query(text) and not _is_vocabulary(text):
            yield text


def _docstring(node: ast.AST) -> ast.expr | None:
    match node:
        case (
            ast.Module(body=[ast.Expr(value=ast.Constant(value=str()) as text), *_])
            | ast.ClassDef(body=[ast.Expr(value=ast.Constant(value=str()) as text), *_])
            | ast.FunctionDef(body=[ast.Expr(value=ast.Constant(value=str()) as text), *_])
            | ast.AsyncFunctionDef(body=[ast.Expr(value=ast.Constant(value=str()) as text), *_])
        ):
            return text
    return None


def _literal(node: ast.AST) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(
                part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else "X" for part in values
            )
    return ""


def _is_query(text: str) -> bool:
    return (
        re.match(r"\s*(?:SELECT|WITH|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|MATCH|MERGE|UNWIND|CALL)\b", text)
        is not None
    )


def _is_vocabulary(text: str) -> bool:
    """Patterns and word lists by which the chat and the command line recognise what people write."""
    is_list = len(text.split()) > _LONGEST_PHRASE and re.search(r"[.,:;]", text) is None
    return is_list or re.search(r"[|\\]|\[\w+\]|\(\?", text) is not None


def query_comments(text: str) -> Iterator[str]:
    return (match.group(1) for match in re.finditer(r"(?:--|//) (.*)", text))


def script_comments(text: str) -> Iterator[str]:
    for match in re.finditer(r"^\s*// (.*)|/\*(.*?)\*/", text, flags=re.MULTILINE | re.DOTALL):
        yield match.group(1) or match.group(2) or ""


def test_names(source: str) -> Iterator[str]:
    return (name.replace("_", " ") + "." for name in re.findall(r"def test_(\w+)", source))


def command_help() -> Iterator[str]:
    """The printed help of every command."""
    from dibs.cli.commands.completion import catalogues

    for catalogue in catalogues():
        for entry in catalogue.entries:
            yield entry.summary + "."
            yield plain(entry.parser.format_help())


def commits() -> Iterator[str]:
    log = subprocess.run(
        ["git", "log", f"-{COMMITS}", "--format=%s."], cwd=ROOT, capture_output=True, text=True, check=False
    )
    yield from log.stdout.splitlines()


def surfaces(below: Path | None = None) -> dict[str, list[str]]:
    """Every text that a reader of dibs meets, by surface."""

    def files(*patterns: str) -> list[Path]:
        found = (path for pattern in patterns for path in sorted(ROOT.glob(pattern)))
        return [path for path in found if "vendor" not in path.parts and (below is None or path.is_relative_to(below))]

    def pages(*patterns: str) -> list[str]:
        return [plain(path.read_text(encoding="utf-8")) for path in files(*patterns)]

    def within(parts: Callable[[str], Iterator[str]], *patterns: str) -> list[str]:
        return [text for path in files(*patterns) for text in parts(path.read_text(encoding="utf-8"))]

    python = ("src/**/*.py", "tools/*.py", "bench/**/*.py", "eval/*.py")
    return {
        "README": pages("README.md"),
        "CONTRIBUTING, SECURITY": pages("CONTRIBUTING.md", "SECURITY.md", "docs/contributing/*.md"),
        "CHANGELOG": pages("CHANGELOG.md"),
        "docs: tutorial, how-to": pages("docs/*.md", "docs/tutorial/*.md", "docs/howto/*.md"),
        "docs: reference": pages("docs/reference/*.md"),
        "docs: explanation": pages("docs/explanation/*.md"),
        "docs: decisions": pages("docs/decisions/*.md"),
        "command help": list(command_help()) if below is None else [],
        "messages": within(messages, "src/**/*.py"),
        "docstrings": within(docstrings, *python),
        "comments": within(comments, *python),
        "SQL, Cypher comments": within(query_comments, "src/**/*.sql", "src/**/*.cypher"),
        "board": within(script_comments, "src/dibs/serve/board/static/*.js")
        + pages("src/dibs/serve/board/static/*.html"),
        "test names": within(test_names, "tests/**/*.py"),
        "test comments": within(docstrings, "tests/**/*.py") + within(comments, "tests/**/*.py"),
        f"last {COMMITS} commits": list(commits()) if below is None else [],
    }


def _worst(texts: Iterable[str], count: int) -> list[str]:
    sentences = [
        " ".join(each.split()) for text in texts for each in re.split(r"(?<=[.!?])\s+|\n\n|\n(?=[-|*#])", text)
    ]
    found = [sentence for sentence in sentences if sum(habits(sentence).values())]
    return sorted(found, key=lambda sentence: -sum(habits(sentence).values()))[:count]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measure how readable our English is.")
    parser.add_argument("path", nargs="?", type=Path, metavar="PATH", help="only the files below PATH (default: all)")
    parser.add_argument(
        "--show", type=int, default=0, metavar="N", help="also print the N worst sentences of each surface (default: 0)"
    )
    options = parser.parse_args(arguments)
    above = []
    for name, texts in surfaces(options.path and options.path.resolve()).items():
        text = "\n".join(texts)
        if not text.split():
            continue
        counts = habits(text)
        most = max(counts, key=counts.__getitem__)
        print(
            f"{name:24}{len(text.split()):>8} words {rate(text):>6.1f} per 1,000   most frequent: {most} {counts[most]}"
        )
        for sentence in _worst(texts, options.show):
            print("    -", sentence[:240])
        # The subject of a commit that has landed cannot be rewritten, so it is reported only.
        if rate(text) > CEILINGS.get(name, LIMIT) and not name.endswith("commits"):
            above.append(name)
    if above and options.path is None:
        print(f"above the limit: {'; '.join(above)}. See docs/contributing/language.md.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
