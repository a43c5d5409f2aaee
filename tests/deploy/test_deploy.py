"""What deploy/ and the workflows start is there, and takes the options that it is given."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from dibs.cli.commands.completion import catalogues
from docs.pages import ROOT
from sbom import sbom

if TYPE_CHECKING:
    from pathlib import Path

UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
COMPOSED = sorted((ROOT / "deploy" / "container").glob("*.yaml"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
CONTAINER = ROOT / "deploy" / "container" / "Containerfile"

# What an environment file gives, with an example of it.
_GIVEN = {"%i": "ann", "%H": "host", "$WORK_OPTIONS": "--slots 4", "$WORK_COMMAND": "make-it"}


def name_of(path: Path) -> str:
    return path.name


def parsed(words: list[str]) -> None:
    """Refused by the command's own parser where an option is wrong."""
    (dibs,) = (each for each in catalogues() if each.script == "dibs")
    (entry,) = (entry for entry in dibs.entries if entry.words == ("dibs", words[0]))
    entry.parser.parse_args(words[1:])


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content


@pytest.mark.parametrize("unit", UNITS, ids=name_of)
def test_a_unit_starts_a_command_that_there_is(unit: Path) -> None:
    (started,) = re.findall(r"^ExecStart=/opt/dibs/bin/dibs (.+)$", unit.read_text(encoding="utf-8"), re.MULTILINE)
    for name, value in _GIVEN.items():
        started = started.replace(name, value)
    parsed(started.split())


@pytest.mark.parametrize("unit", UNITS, ids=name_of)
def test_systemd_understands_a_unit(unit: Path, tmp_path: Path) -> None:
    verify = shutil.which("systemd-analyze")
    text = unit.read_text(encoding="utf-8")
    assert {"[Unit]", "[Service]", "[Install]"} <= set(text.splitlines())
    if verify:
        here = tmp_path / unit.name
        here.write_text(re.sub(r"ExecStart=\S+", "ExecStart=/bin/true", text), encoding="utf-8")
        told = subprocess.run(
            [verify, "verify", "--man=no", here], capture_output=True, text=True, timeout=120, check=False
        )
        assert unit.name.replace("@", "@i") not in told.stderr, told.stderr


@pytest.mark.parametrize("composed", COMPOSED, ids=name_of)
def test_what_is_composed_is_healthy_before_it_is_used(composed: Path) -> None:
    services = read(composed)["services"]
    for service in services.values():
        if "command" in service:
            parsed(service["command"])
        for needed, how in service.get("depends_on", {}).items():
            assert how == {"condition": "service_healthy"}
            assert needed in services
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:"), "nothing is open to the network unless somebody says so"
        if "build" in service:
            assert (composed.parent / service["build"]["context"]).resolve() == ROOT


def test_the_container_runs_as_nobody_in_particular_and_says_how_it_is() -> None:
    text = CONTAINER.read_text(encoding="utf-8")
    stages = re.split(r"^FROM ", text, flags=re.MULTILINE)[1:]
    assert len(stages) == 2
    assert re.search(r"^USER dibs$", stages[1], re.MULTILINE)
    assert "/health" in stages[1]
    (started,) = re.findall(r"^CMD (\[.+\])$", text, re.MULTILINE)
    parsed(yaml.safe_load(started))
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE)
    kept = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert all(f"!{name}" in kept and (ROOT / name).exists() for names in copied for name in names.split())


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=name_of)
def test_a_workflow_runs_what_there_is_and_may_no_more_than_it_needs(workflow: Path) -> None:
    content = read(workflow)
    assert "contents" in content["permissions"]
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for job in content["jobs"].values():
        assert job["timeout-minutes"] <= 60
        for command in (step["run"] for step in job["steps"] if "run" in step):
            first, *rest = command.split()
            if first == "gh":  # GitHub's own program, which its machines have
                continue
            assert (ROOT / first).exists() if first != "make" else set(rest) <= set(targets)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=name_of)
def test_actions_are_pinned_to_commits_and_name_their_version(workflow: Path) -> None:
    used = re.findall(r"uses: *(.+)", workflow.read_text(encoding="utf-8"))
    assert used
    for each in used:
        assert re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v[\d.]+", each), each


def test_release_publishes_a_bill_of_the_shipped_dependencies() -> None:
    document = sbom(ROOT)
    scopes = {each["name"]: each["scope"] for each in document["components"]}
    assert {name for name, scope in scopes.items() if scope == "required"} >= {"pyyaml", "rich"}
    assert {"neo4j", "psycopg2-binary", "starlette", "pyjwt", "mcp"} <= scopes.keys()
    assert scopes.keys().isdisjoint({"pytest", "ruff", "mypy", "hypothesis"}), "tools are not shipped"
    refs = {each["bom-ref"] for each in document["components"]}
    assert all(refs.issuperset(each["dependsOn"]) for each in document["dependencies"])
    (release,) = (workflow for workflow in WORKFLOWS if workflow.name == "release.yml")
    assert "build/sbom.cdx.json" in release.read_text(encoding="utf-8")
