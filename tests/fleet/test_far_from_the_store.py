"""A worker in a network namespace that can reach only the server."""

from __future__ import annotations

import os
import shutil
import subprocess
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from dibs.core.task import Draft, Link
from dibs.desk import open_desk
from dibs.serve.access import ROLES, Caller, create_token
from support.http import PATIENCE, SCRIPT, Server, new_store
from support.remote import UnixSocket

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "x" * 40  # of a server on loopback
UNSHARE = ["unshare", "--net"] if os.getuid() == 0 else ["unshare", "--map-root-user", "--net"]
COMMIT = 'echo "$DIBS_TASK_ID" > made.txt; git add -A; git commit -qm "$DIBS_TASK_ID"'
WHO = {
    f"GIT_{role}_{part}": f"ann{end}"
    for role in ("AUTHOR", "COMMITTER")
    for part, end in (("NAME", ""), ("EMAIL", "@example.org"))
}


def can_unshare() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not can_unshare(), reason="No network namespace can be made here. Run as root, on Linux.")
def test_worker_with_only_the_server_works_in_worktrees(tmp_path: Path) -> None:
    repository, environment = tmp_path / "repository", {**os.environ, **WHO}
    repository.mkdir()
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run(["git", *words], cwd=repository, env=environment, check=True)
    store = new_store(tmp_path)
    with open_desk(store) as desk:
        desk.add([Draft("Write it", "write"), Draft("Test it", "test")], [Link("test", "write")])
        caller = Caller("ann", None, ROLES["worker"], frozenset({"default"}))
        token, _ = create_token(desk, caller, SECRET.encode(), timedelta(hours=1))
        server = Server(store, variables={"DIBS_SERVE_SECRET": SECRET})
        way = UnixSocket(str(tmp_path / "s"), server.port)
        for name in ("DIBS_AGENT", "DIBS_SERVER_TOKEN_FILE"):
            environment.pop(name, None)
        environment |= {"DIBS_STORE": f"http+unix://{tmp_path}/s?timeout=60", "DIBS_SERVER_TOKEN": token}
        work = [*UNSHARE, str(SCRIPT), "work", "--worktree", "--until-empty", "--", "sh", "-c", COMMIT]
        ran = subprocess.run(
            work, cwd=repository, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        way.end()
        server.end()
        assert ran.returncode == 0, ran.stderr
        made = [desk.get(task) for task in ("write", "test")]
    assert {(task.status, task.finished_by) for task in made} == {("done", "ann")}
    shown = subprocess.run(
        ["git", "show", "dibs/test:made.txt"], cwd=repository, capture_output=True, text=True, check=True
    )
    assert shown.stdout == "test\n"
