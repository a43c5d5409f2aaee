"""The wheel has all files, and runs without extras and with each single extra."""

from __future__ import annotations

import json
import tarfile
import tomllib
import zipfile
from typing import TYPE_CHECKING

import pytest

from docs.pages import ROOT
from support.wheel import Place, build, distributions, linked

if TYPE_CHECKING:
    from pathlib import Path

# One group, so that it is built and installed once; a busy machine takes minutes for that.
pytestmark = [pytest.mark.timeout(3600), pytest.mark.xdist_group("wheel")]

# What each extra is for: modules of ours that need it and are imported with nothing but it.
EXTRAS = {
    "postgres": ("dibs.stores.postgres.store", "psycopg2"),
    "neo4j": ("dibs.stores.neo4j.store", "neo4j"),
    "notion": ("dibs.stores.notion.store", "notion_client"),
    "semantic": ("dibs.core.search", "numpy"),
    "serve": ("dibs.serve.server", "jwt"),
    "mcp": ("mcp",),
    "testing": ("dibs.testing.conformance.complete", "hypothesis"),
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def place(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("place"), wheel)


def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    package = ROOT / "src" / "dibs"
    ours = {path.relative_to(package.parent).as_posix() for path in package.rglob("*") if path.is_file()}
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("dibs/")}
    assert packed == {name for name in ours if "__pycache__" not in name}
    assert {"dibs/py.typed", "dibs/stores/sqlite/queries.sql", "dibs/stores/neo4j/schema.cypher"} <= packed


def test_the_sdist_has_what_it_takes_to_test_it(tmp_path: Path) -> None:
    with tarfile.open(build("sdist", tmp_path)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"Makefile", "requirements.txt", "mkdocs.yml", "LICENSE", "tests/conftest.py", "docs/README.md"} <= names


def test_it_works_with_nothing_else_installed(place: Place, tmp_path: Path) -> None:
    for words in (["dibs", "init"], ["dibs", "add", "One", "--id", "a"], ["python", "-m", "dibs", "ready"]):
        done = place.run(*words, folder=tmp_path)
        assert (done.returncode, done.stderr) == (0, ""), done
    claim = json.loads(place.run("dibs", "claim", "--json", folder=tmp_path).stdout)
    token = claim["data"]["token"]
    assert place.run("dibs", "done", "a", "--token", token, folder=tmp_path).returncode == 0


def test_every_script_is_there_and_knows_its_version(place: Place, tmp_path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for script in project["scripts"]:
        assert place.run(script, "--help", folder=tmp_path).returncode == 0
    said = place.run("python", "-c", "import dibs; print(dibs.__version__)", folder=tmp_path).stdout.strip()
    assert place.run("dibs", "--version", folder=tmp_path).stdout.split() == ["dibs", said]


def test_a_missing_extra_is_named(place: Place, tmp_path: Path) -> None:
    asked = {
        "postgres": ("list", "--store", "postgresql://localhost/x"),
        "neo4j": ("list", "--store", "neo4j://localhost"),
        "serve": ("serve", "--port", "0", "--store", "new.db"),
        "mcp": ("mcp", "--store", "new.db"),
    }
    assert place.run("dibs", "init", "--store", "new.db", folder=tmp_path).returncode == 0
    for extra, words in asked.items():
        told = place.run("dibs", *words, folder=tmp_path)
        assert f"dibs[{extra}]" in told.stderr, told
        assert "Traceback" not in told.stderr


def test_conformance_suite_names_its_extra(place: Place, tmp_path: Path) -> None:
    told = place.run("python", "-c", "from dibs.testing import StoreConformance", folder=tmp_path)
    assert told.returncode == 1
    assert "pip install 'dibs[testing]'" in told.stderr


def test_each_extra_is_looked_at() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert set(EXTRAS) == set(extras) - {"all", "dev"}


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_needs_no_other(extra: str, place: Place, tmp_path: Path) -> None:
    beside = linked(distributions(extra), tmp_path / "beside")
    program = f"import dibs; import {', '.join(EXTRAS[extra])}; print(dibs.__file__)"
    done = place.run("python", "-c", program, folder=tmp_path, beside=beside)
    assert done.returncode == 0, done.stderr
    assert str(place.site) in done.stdout
