"""Onboarding of agents: init's AGENTS.md, prime and setup."""

from __future__ import annotations

import json
import math
import re
import resource
import socket
import subprocess
from typing import TYPE_CHECKING

import pytest

from dibs.fleet.instructions import briefing
from dibs.onboarding import prime
from dibs.onboarding.block import BODY
from dibs.onboarding.products import PRODUCTS
from support.cli import SCRIPT

if TYPE_CHECKING:
    from pathlib import Path

    from dibs.onboarding.products import File
    from support.cli import Cli

PRODUCT_FILES = [(product, file) for product, told in PRODUCTS.items() for file in told.files]


def tokens(text: str) -> int:
    """An upper bound of a text's tokens: one per sign and per six letters of a word."""
    return sum(math.ceil(len(piece) / 6) for piece in re.findall(r"[^\W\d_]+|\d+|[^\w\s]|_|\n", text))


# init and AGENTS.md


def test_init_adds_instructions_for_agents(bare: Cli) -> None:
    assert bare.json("init") == {"store": str(bare.store), "agents_file": "AGENTS.md"}
    told = (bare.folder / "AGENTS.md").read_text()
    assert BODY in told
    assert "AGENTS.md" in bare.ok("init")
    assert (bare.folder / "AGENTS.md").read_text() == told


def test_init_keeps_existing_instructions(bare: Cli) -> None:
    file = bare.folder / "AGENTS.md"
    file.write_bytes(b"# Our rules\r\n\r\nTabs.\r\n")
    file.chmod(0o640)
    bare.ok("init")
    assert file.read_bytes().startswith(b"# Our rules\r\n\r\nTabs.\r\n\r\n<!-- dibs:begin")
    assert file.stat().st_mode & 0o777 == 0o640


def test_init_can_leave_agents_md_alone(bare: Cli) -> None:
    bare.ok("init", "--no-agents-file")
    bare.ok("init", "--store", "elsewhere.db")
    assert not (bare.folder / "AGENTS.md").exists()


def test_init_keeps_a_changed_block_unless_forced(cli: Cli) -> None:
    file = cli.folder / "AGENTS.md"
    changed = file.read_text().replace("Claim a task", "Grab a task")
    file.write_text(changed)
    ran = cli("init")
    assert ran.status == 0
    assert "--force" in ran.err
    assert file.read_text() == changed
    cli.ok("init", "--force")
    assert BODY in file.read_text()


def _unreadable(file: Path) -> None:
    file.write_bytes(b"caf\xe9\n")


def _read_only(file: Path) -> None:
    file.write_text("# Ours\n")
    file.chmod(0o444)


def _link_out_of_the_project(file: Path) -> None:
    outside = file.parent.parent / "dotfiles.md"
    outside.write_text("# Everybody's\n")
    file.symlink_to(outside)


def _link_to_nowhere(file: Path) -> None:
    file.symlink_to("nowhere.md")


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_unreadable, "not UTF-8 (byte 3)"),
        (_read_only, "read-only"),
        (_link_to_nowhere, "link to a missing file"),
        (_link_out_of_the_project, "outside of the project"),
        (lambda file: file.mkdir(), "not a file"),
        (lambda file: file.write_text("```\nopen\n"), "fenced code block"),
    ],
    ids=["not UTF-8", "read-only", "dangling", "out of the project", "folder", "open fence"],
)
def test_init_creates_the_store_if_agents_md_is_not_writable(spoil: object, why: str, bare: Cli) -> None:
    file = bare.folder / "AGENTS.md"
    assert callable(spoil)
    spoil(file)
    before = file.read_bytes() if file.is_file() else None
    ran = bare("init")
    assert (ran.status, bare.store.exists()) == (0, True)
    assert why in ran.err
    assert (file.read_bytes() if file.is_file() else None) == before


def test_symbolic_link_is_kept_and_its_target_is_written(bare: Cli) -> None:
    (bare.folder / "CLAUDE.md").write_text("# Ours\n")
    (bare.folder / "AGENTS.md").symlink_to("CLAUDE.md")
    bare.ok("init")
    assert (bare.folder / "AGENTS.md").is_symlink()
    assert BODY in (bare.folder / "CLAUDE.md").read_text()


# prime


def test_prime_prints_instructions_and_state(cli: Cli) -> None:
    for number in range(5):
        cli.add(f"job{number}")
    cli.claim("job0")
    said = cli.ok("prime")
    assert said.startswith(briefing(tools=False))
    assert "Now: 4 ready, 1 being worked on" in said
    assert "You (ann) hold job0" in said
    assert "Next: job1" in cli.ok("prime", "--agent", "bob")
    assert cli.json("prime")["situation"]["held"] == ["job0"]


def test_prime_mentions_tools_if_the_product_has_them(cli: Cli) -> None:
    cli.ok("setup", "claude", "--yes")
    assert cli.ok("prime").startswith(briefing(tools=None))
    cli.set("CLAUDECODE", "1")
    assert cli.ok("prime").startswith(briefing(tools=True))
    cli.set("CLAUDECODE", "")
    cli.set("GEMINI_CLI", "1")
    assert cli.ok("prime").startswith(briefing(tools=False))
    for tools, other in ((True, "dibs renew"), (True, "before half"), (False, "tools")):
        assert other not in briefing(tools=tools)
    servers = {
        name: file.name
        for name, product in PRODUCTS.items()
        for file in product.files
        if "mcp" in str(file.entries) + file.body.partition("##")[0]
    }
    assert servers == prime.SERVER_FILES


def test_prime_stays_under_400_tokens_for_any_task_names(cli: Cli) -> None:
    for number in range(5):
        cli.ok("add", "Rewrite " + "the whole of the documentation " * 15, "--id", f"job{number}")
        cli.claim(f"job{number}")
    said = cli.ok("prime")
    assert tokens(said) < 400
    assert "dibs list --held-by ann" in said


def test_prime_is_silent_outside_a_project(bare: Cli) -> None:
    assert bare("prime") == (0, "", "")


def test_prime_succeeds_without_its_store(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    assert prime._PATIENCE <= 5, "whoever starts a session waits for it"
    monkeypatch.setattr(prime.within, "__defaults__", (0.5,))
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        ran = cli("prime", "--store", f"postgresql://ann:geheim@127.0.0.1:{silent.getsockname()[1]}/dibs")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith(briefing(tools=False))
    said = ran.out.splitlines()[-1]
    assert "state of the tasks is unknown" in said
    assert "no answer within 0.5 seconds" in said, "nobody waits for the driver to give up"
    assert "geheim" not in ran.out
    cli.store.write_bytes(b"not a database" * 1000)
    cli.damaged = True
    assert "state of the tasks is unknown" in cli.ok("prime")


def test_prime_costs_little_more_than_version(cli: Cli) -> None:
    cli.add("job")

    def spent(command: str) -> float:
        """Processor time, which a busy machine inflates for both commands alike."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([SCRIPT, command], cwd=cli.folder, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    pairs = [(spent("prime"), spent("version")) for _ in range(5)]
    assert min(primed for primed, _ in pairs) < 5 * min(version for _, version in pairs)


# setup


def _tree(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file() and ".dibs" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


@pytest.mark.parametrize("product", PRODUCTS)
def test_product_is_set_up_checked_and_undone(product: str, bare: Cli) -> None:
    bare.ok("init", "--no-agents-file")
    assert bare("setup", product, "--check").status == 1
    said = bare.ok("setup", product, "--yes")
    assert all(f"+++ {file.name}" in said for file in PRODUCTS[product].files)
    assert bare("setup", product, "--check").status == 0
    there = _tree(bare.folder)
    assert set(there) == {file.name for file in PRODUCTS[product].files}
    assert bare.json("setup", product, "--yes")["changed"] == []
    assert _tree(bare.folder) == there
    bare.ok("setup", product, "--undo", "--yes")
    assert _tree(bare.folder) == {}
    assert sorted(path.name for path in bare.folder.iterdir()) == [".dibs"], "the folders made for it went too"


@pytest.mark.parametrize(
    ("product", "name", "theirs"),
    [
        ("claude", ".mcp.json", '{\n\t"mcpServers": {"github": {"command": "gh-mcp"}}\n}'),
        (
            "claude",
            ".claude/settings.json",
            '{"hooks":{"SessionStart":[{"hooks":[{"type":"command","command":"date"}]}]}}',
        ),
        ("codex", ".codex/config.toml", '# mine\nmodel = "o9"  # the best\n\n[mcp_servers.x]\ncommand = "x"'),
        ("cursor", ".cursor/mcp.json", "{}"),
        ("gemini", "GEMINI.md", "# For Gemini"),
        ("vscode", ".vscode/mcp.json", '{\r\n  // servers\r\n  "servers": {},\r\n  "inputs": [],\r\n}\r\n'),
    ],
)
def test_setup_keeps_and_restores_existing_files(product: str, name: str, theirs: str, cli: Cli) -> None:
    file = cli.folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(theirs.encode())
    before = _tree(cli.folder)
    cli.ok("setup", product, "--yes")
    assert file.read_bytes() != theirs.encode()
    assert cli("setup", product, "--check").status == 0
    cli.ok("setup", product, "--undo", "--yes")
    assert _tree(cli.folder) == before


def test_undo_removes_only_our_entries_from_a_changed_file(cli: Cli) -> None:
    cli.ok("setup", "claude", "--yes")
    file = cli.folder / ".mcp.json"
    document = json.loads(file.read_text())
    document["mcpServers"]["files"] = {"command": "files-mcp"}
    file.write_text(json.dumps(document))
    cli.ok("setup", "claude", "--undo", "--yes")
    assert json.loads(file.read_text()) == {"mcpServers": {"files": {"command": "files-mcp"}}}
    assert not (cli.folder / ".claude").exists()


def test_shared_file_keeps_the_block_until_the_last_undo(bare: Cli) -> None:
    bare.ok("init", "--no-agents-file")
    for product in ("codex", "cursor"):
        bare.ok("setup", product, "--yes")
    bare.ok("setup", "codex", "--undo", "--yes")
    assert set(_tree(bare.folder)) == {".cursor/mcp.json", "AGENTS.md"}
    bare.ok("setup", "cursor", "--undo", "--yes")
    assert _tree(bare.folder) == {}


def test_undo_of_a_product_keeps_inits_block(cli: Cli) -> None:
    cli.ok("setup", "codex", "--yes")
    ran = cli("setup", "codex", "--undo", "--yes")
    assert "other agents" in ran.err
    assert set(_tree(cli.folder)) == {"AGENTS.md"}
    cli.ok("setup", "agents", "--undo", "--yes")
    assert _tree(cli.folder) == {}


@pytest.mark.parametrize(("product", "file"), PRODUCT_FILES, ids=lambda value: getattr(value, "name", value))
def test_broken_file_is_refused_with_its_position(product: str, file: File, cli: Cli) -> None:
    name, kind = file.name, file.kind
    if kind == "markdown":
        return
    broken = cli.folder / name
    broken.parent.mkdir(exist_ok=True)
    broken.write_text('{\n  "a": 1,\n  "b" 2\n}\n' if kind == "json" else "a = 1\nb 2\n")
    before = _tree(cli.folder)
    told = cli.refuses(2, "INVALID_INPUT", "setup", product, "--yes")
    assert name in told.message
    assert re.search(r"line [23]", told.message)
    assert _tree(cli.folder) == before
    assert cli("setup", product, "--check").status == 1


def test_unwritable_file_restores_the_others(cli: Cli) -> None:
    settings = cli.folder / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text("{}")
    settings.chmod(0o444)
    before = _tree(cli.folder)
    told = cli("setup", "claude", "--yes")
    assert (told.status, "read-only" in told.err) == (7, True)
    assert _tree(cli.folder) == before


def test_changed_entry_is_kept_and_reported(cli: Cli) -> None:
    theirs = '{"mcpServers": {"dibs": {"command": "/opt/dibs"}}}'
    (cli.folder / ".mcp.json").write_text(theirs)
    ran = cli("setup", "claude", "--yes")
    assert "already has a different" in ran.err
    assert (cli.folder / ".mcp.json").read_text() == theirs
    assert cli("setup", "claude", "--check").status == 1


def test_setup_writes_nothing_without_a_terminal(cli: Cli) -> None:
    before = _tree(cli.folder)
    ran = cli("setup", "claude")
    assert ran.status == 2
    assert "+++ .mcp.json" in ran.out, "what would change is shown all the same"
    assert "--yes" in ran.err
    assert _tree(cli.folder) == before


def test_setup_writes_to_the_project_from_any_subfolder(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = cli.folder / "src" / "deep"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    cli.ok("setup", "claude", "--yes")
    assert (cli.folder / ".mcp.json").exists()


def test_store_elsewhere_is_written_into_no_file(bare: Cli) -> None:
    bare.set("DIBS_STORE", "postgresql://ann:geheim@db.example/dibs")
    bare.ok("setup", "cursor", "--yes")
    assert not any(b"geheim" in raw or b"--store" in raw for raw in _tree(bare.folder).values())


def test_setup_outside_a_project_explains_how_to_create_one(bare: Cli) -> None:
    assert "dibs init" in bare.refuses(7, "NO_STORE", "setup", "claude", "--yes").message


def test_unknown_product_names_the_known_ones(cli: Cli) -> None:
    assert "codex" in cli.refuses(2, "INVALID_INPUT", "setup", "emacs").message


# top


def test_top_without_a_terminal_is_one_page_of_text(cli: Cli) -> None:
    cli.add("job")
    cli.add("other")
    cli.claim("job")
    said = cli.ok("top")
    assert said == cli.ok("top", "--once")
    assert "1 ready  1 held" in said
    assert [line for line in said.splitlines() if "ann" in line and "job" in line]
    found = cli.json("top")
    assert [one["agent"] for one in found["agents"]] == ["ann"]
    assert [task["id"] for task in found["ready"]] == ["other"]
    assert "token" not in str(found)


def test_top_reads_at_most_ten_times_a_second(cli: Cli) -> None:
    assert "0.1s" in cli.refuses(2, "INVALID_INPUT", "top", "--interval", "0").message


# demo


def test_demo_keeps_a_folder_of_the_user(bare: Cli) -> None:
    assert bare.json("demo", "--minutes", "0", "--dir", "play")["tasks"] > 25
    assert bare.json("list", "--store", "play/.dibs/dibs.db")
    told = bare.refuses(2, "INVALID_INPUT", "demo", "--minutes", "0", "--dir", "play")
    assert "not empty" in told.message


@pytest.mark.parametrize("words", [("--speed", "0"), ("--minutes", "-1"), ("--minutes", "nan"), ("--port", "70000")])
def test_invalid_demo_options_are_refused(words: tuple[str, ...], bare: Cli) -> None:
    bare.refuses(2, "INVALID_INPUT", "demo", *words)
