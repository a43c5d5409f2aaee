"""The lint rule that a suggested command quotes its values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import quoted_hints

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "line",
    [
        """raise NotFound(f"gone; see 'dibs show {task.id}'")""",
        """hint = f"  when done   dibs mesh complete {task.id} --confidence N" """,
        """hint = "ralph task deps " + task.id""",
        """hint = "'ntask claim %s' takes it" % task.id""",
        """hint = "try: dibs done {}".format(task.id)""",
        """hint = f"dibs done {command('x')} --scope {scope}" """,
    ],
)
def test_raw_value_in_a_command_is_found(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "new.py").write_text(f"x = 1\n{line}\n")
    assert quoted_hints.main(str(tmp_path)) == 1
    assert "new.py:2: " in capsys.readouterr().out


@pytest.mark.parametrize(
    "line",
    [
        """hint = f"see '{command('dibs', 'show', task.id)}'" """,
        """hint = f"dibs done {quoted(task.id)}" """,
        """hint = f"There is no task '{ref}' in {scope}; 'dibs list' lists the tasks." """,
        """hint = f"the block of dibs in line {line}" """,
    ],
)
def test_quoted_value_and_plain_prose_pass(line: str, tmp_path: Path) -> None:
    (tmp_path / "new.py").write_text(f"{line}\n")
    assert quoted_hints.main(str(tmp_path)) == 0


def test_the_source_keeps_the_rule(request: pytest.FixtureRequest) -> None:
    assert quoted_hints.main(str(request.config.rootpath / "src" / "dibs")) == 0
