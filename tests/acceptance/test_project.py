"""init, version, doctor: a project and its health."""

from __future__ import annotations

import io
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import metadata
from threading import Thread
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from dibs import __version__
from dibs.cli import main

if TYPE_CHECKING:
    from support.cli import Cli


def test_plain_path_with_a_percent_sign_is_literal(cli: Cli) -> None:
    cli.ok("init", "--store", "a%20b.db")
    assert (cli.folder / "a%20b.db").exists()
    assert not (cli.folder / "a b.db").exists()
    cli.ok("init", "--store", "sqlite:///c%20d.db")
    assert (cli.folder / "c d.db").exists()


def test_init_creates_a_project_and_suggests_the_next_step(bare: Cli) -> None:
    said = bare.ok("init")
    assert str(bare.store) in said
    assert "dibs add" in said
    assert bare.ok("list") == ""


def test_init_prints_the_store_as_json(bare: Cli) -> None:
    assert bare.json("init")["store"] == str(bare.store)


def test_init_keeps_the_store_out_of_version_control(cli: Cli) -> None:
    assert (cli.folder / ".dibs" / ".gitignore").read_text() == "*\n"


def test_second_init_keeps_the_store(cli: Cli) -> None:
    cli.add("job")
    ignored = cli.folder / ".dibs" / ".gitignore"
    ignored.write_text("*.db*\n")
    before = cli.snapshot()
    cli.ok("init")
    assert cli.snapshot() == before
    assert ignored.read_text() == "*.db*\n", "a user's own rules are not overwritten"


def test_init_creates_the_requested_store(bare: Cli) -> None:
    assert bare.json("init", "--store", "elsewhere.db") == {"store": str(bare.folder / "elsewhere.db")}
    assert not bare.store.exists()
    bare.ok("add", "A task", "--store", "elsewhere.db")
    assert len(bare.json("list", "--store", f"sqlite:///{bare.folder}/elsewhere.db")) == 1


def test_init_names_a_missing_folder(bare: Cli) -> None:
    assert "no/such" in bare.refuses(7, "STORE_UNAVAILABLE", "init", "--store", "no/such/place.db").message


def test_project_is_found_from_folders_below_it(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.add("job")
    deep = cli.folder / "src" / "deep"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    assert cli.ids("list") == ["job"]


def test_missing_project_error_explains_how_to_create_one(bare: Cli) -> None:
    told = bare.refuses(7, "NO_STORE", "list")
    assert str(bare.folder) in told.message
    assert "dibs init" in told.message
    assert not bare.store.parent.exists()


@pytest.mark.parametrize("words", [("version",), ("--version",)])
def test_version_prints_the_version(words: tuple[str, ...], bare: Cli) -> None:
    assert bare.ok(*words) == f"dibs {__version__}\n"
    assert bare.json(*words) == {"version": __version__}


def test_doctor_prints_the_configuration(cli: Cli) -> None:
    facts = cli.json("doctor")["facts"]
    assert facts["dibs"] == __version__
    assert facts["kind"] == "sqlite"
    assert facts["place"] == str(cli.store)
    said = cli.ok("doctor")
    assert all(value in said for value in facts.values())


def test_doctor_deep_reports_a_sound_store(cli: Cli) -> None:
    cli.add("first")
    cli.add("second", "--blocked-by", "first")
    assert cli.json("doctor", "--deep") | {"facts": {}} == {"facts": {}, "deep": True, "findings": []}
    assert "✓" in cli.ok("doctor", "--deep")


_LINK = "INSERT INTO link (task, on_task, kind, weight, detected_by, confidence)"
_FIXABLE = {
    "a wrong count of prerequisites": "UPDATE task SET blockers = 7 WHERE id = 'first'",
    "a task hidden from claims": "UPDATE task SET opens_at = NULL WHERE id = 'first'",
    "a waiting task up for grabs": "UPDATE task SET opens_at = 9223372036854775807 WHERE id = 'second'",
    "a link into nothing": f"{_LINK} SELECT key, 99, 'blocks', 1.0, 'x', 1.0 FROM task WHERE id = 'first'",
    "a parent that is gone": "UPDATE task SET parent = 'gone' WHERE id = 'first'",
}
_FOR_A_PERSON = {
    "half a lease": "UPDATE task SET status = 'active' WHERE id = 'lone'",
    "finished and not": "UPDATE task SET finished_at = 5 WHERE id = 'lone'",
    "an attempt forgotten": "UPDATE event SET attempt = 3 WHERE task = 'lone'",
    "a cycle": f"{_LINK} SELECT a.key, b.key, 'feeds_into', 1.0, 'x', 1.0 FROM task a, task b "
    "WHERE a.id = 'first' AND b.id = 'second'",
}


@pytest.fixture
def damaged(cli: Cli) -> Cli:
    """A small project for a test to damage."""
    cli.add("first")
    cli.add("second", "--blocked-by", "first")
    cli.add("lone")
    cli.damaged = True
    return cli


@pytest.mark.parametrize("damage", _FIXABLE.values(), ids=_FIXABLE)
def test_doctor_fix_repairs_derived_data(damage: str, damaged: Cli) -> None:
    before = damaged.snapshot()
    damaged.sql("PRAGMA foreign_keys = OFF", damage)

    ran = damaged("doctor", "--deep")
    assert ran.status == 1
    assert "✗" in ran.out
    assert "--fix" in ran.out
    found = damaged("doctor", "--deep", "--json")
    assert found.status == 1
    assert [finding["fixed"] for finding in found.data["findings"]] == [False] * len(found.data["findings"])

    fixed = damaged("doctor", "--deep", "--fix")
    assert fixed.status == 0, fixed
    assert "fixed" in fixed.out
    assert damaged.json("doctor", "--deep")["findings"] == []
    assert damaged.snapshot().tasks == before.tasks
    assert damaged.snapshot().links == before.links
    assert '"verb":"repair"' in damaged.ok("export")


@pytest.mark.parametrize("damage", _FOR_A_PERSON.values(), ids=_FOR_A_PERSON)
def test_doctor_leaves_undecidable_damage_to_a_person(damage: str, damaged: Cli) -> None:
    damaged.sql(damage)
    found = damaged("doctor", "--fix", "--json")
    assert found.status == 1
    left = [finding for finding in found.data["findings"] if not finding["fixed"]]
    assert [finding["fixable"] for finding in left] == [False]
    ran = damaged("doctor", "--deep")
    assert ran.status == 1
    assert "needs a person" in ran.out


_UNREADABLE = {
    "an unknown status": "UPDATE task SET status = 'doing' WHERE id = 'lone'",
    "a list that is none": "UPDATE task SET steps = 'not json' WHERE id = 'lone'",
    "a time beyond the calendar": "UPDATE task SET created_at = 9000000000000000000 WHERE id = 'lone'",
    "an unknown class": "UPDATE task SET class_rank = 9 WHERE id = 'lone'",
    "an unknown kind of link": "UPDATE link SET kind = 'friend'",
    "an unknown outcome": "UPDATE event SET outcome = 'meh'",
}


@pytest.mark.parametrize("damage", _UNREADABLE.values(), ids=_UNREADABLE)
def test_foreign_file_is_reported_as_damage(damage: str, damaged: Cli) -> None:
    damaged.sql(damage)
    for words in (
        ("list",),
        ("show", "second"),
        ("show", "lone"),
        ("log",),
        ("graph",),
        ("export",),
        ("claim", "lone"),
    ):
        ran = damaged(*words)
        assert ran.status in {0, 4, 7}, ran
    found = damaged("doctor", "--deep", "--json")
    assert found.status in {1, 7}


def test_doctor_without_deep_does_not_claim_a_full_check(damaged: Cli) -> None:
    damaged.sql("UPDATE task SET blockers = 7 WHERE id = 'first'")
    assert damaged.json("doctor")["deep"] is False
    assert "✓" not in damaged.ok("doctor")


def test_doctor_names_a_source_to_restore_a_damaged_file(damaged: Cli) -> None:
    raw = bytearray(damaged.store.read_bytes())
    raw[2048 : 2048 * 6] = bytes(2048 * 5)
    damaged.store.write_bytes(raw)
    for words in (("doctor", "--deep"), ("list",), ("claim",)):
        ran = damaged(*words, "--json")
        assert ran.status == 7
        assert ran.error.code == "STORE_CORRUPT"
        assert "export or a backup" in ran.error.message


class _Index(BaseHTTPRequestHandler):
    """A package index with one wheel."""

    version: str
    author: str

    def do_GET(self) -> None:
        name = f"dibs-{self.version}-py3-none-any.whl"
        self.send_response(200)
        if self.path.endswith(".whl"):
            self.send_header("Content-Type", "application/zip")
            body = self._wheel()
        else:
            self.send_header("Content-Type", "text/html")
            body = f'<a href="/{name}">{name}</a>'.encode()
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _wheel(self) -> bytes:
        folder = f"dibs-{self.version}.dist-info"
        described = f"Metadata-Version: 2.1\nName: dibs\nVersion: {self.version}\nAuthor: {self.author}\n"
        whole = io.BytesIO()
        with zipfile.ZipFile(whole, "w") as file:
            file.writestr(f"{folder}/METADATA", described)
            file.writestr(f"{folder}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            file.writestr(f"{folder}/RECORD", "")
        return whole.getvalue()

    def log_message(self, *_: object) -> None:
        pass


def test_version_check_compares_with_pips_package_index(bare: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = metadata("dibs")["Author"]
    with ThreadingHTTPServer(("127.0.0.1", 0), _Index) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/")
        monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
        for version, author, newest, said in (
            ("99.0", ours, "99.0", "the newest version is 99.0"),
            (__version__, ours, __version__, "this is the newest version"),
            ("3.0", "Another project", None, "is not published"),
        ):
            _Index.version, _Index.author = version, author
            told = bare.json("version", "--check")
            assert (told["version"], told["newest"]) == (__version__, newest)
            assert said in told["note"]
        server.shutdown()
    assert "no package index that answers" in bare.ok("version", "--check")


def test_windows_is_refused_with_the_way_to_wsl(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(main, "os", SimpleNamespace(name="nt"))
    with pytest.raises(SystemExit) as leaving:
        main.run()
    assert leaving.value.code == 7
    assert "WSL" in capsys.readouterr().err
