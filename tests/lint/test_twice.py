"""The check for duplicate code finds it, and accepts the signatures that stores share."""

from __future__ import annotations

from textwrap import dedent, indent
from typing import TYPE_CHECKING

import twice

if TYPE_CHECKING:
    from pathlib import Path

BODY = "\n".join(f"total += line_{number}(total)  # {number}" for number in range(twice.LINES))


def written(folder: Path, name: str, body: str) -> None:
    text = dedent(f'''
        """What {name} is."""
        def {name}(total):
            """A docstring that both have, line by line."""
        ''')
    (folder / f"{name}.py").write_text(text + indent(body, "    ") + "\n", encoding="utf-8")


def test_a_run_of_lines_in_two_functions_is_found_whatever_its_comments_and_breaks(tmp_path: Path) -> None:
    written(tmp_path, "one", f"import os\n{BODY}")
    written(tmp_path, "two", BODY.replace("(total)", "(\n    total\n)").replace("#", "# again"))
    (pair,) = twice.pairs(tmp_path)
    assert (pair.first.file, pair.second.file) == ("one.py", "two.py")


def test_fewer_lines_and_other_names_are_let_pass(tmp_path: Path) -> None:
    written(tmp_path, "one", BODY)
    written(tmp_path, "two", BODY.replace("line_0", "other"))
    assert twice.pairs(tmp_path) == []
