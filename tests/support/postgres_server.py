"""A PostgreSQL server of the tests' own: made in a temporary folder, reached through a socket in it, gone afterwards.

`DIBS_TEST_POSTGRES=postgresql://…` points the tests at a server that is there already; they keep to schemas of their
own. Otherwise the programs are looked for in `PG_BIN`, then where `pg_config` says, then where Debian puts them.
"""

from __future__ import annotations

import atexit
import ctypes
import glob
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import closing
from functools import cache
from typing import IO, Any, NoReturn

import psycopg2
import pytest

_START_TIMEOUT = 300.0
_PR_SET_PDEATHSIG = 1

# A server that is thrown away need not survive a power cut; `durable` ones behave as they would in earnest.
_CARELESS = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")


def find_bin() -> str | None:
    """The folder that holds `initdb` and `postgres`."""
    candidates = [os.environ.get("PG_BIN", ""), _told_by_pg_config()]
    candidates += sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=_version, reverse=True)
    candidates.append(os.path.dirname(shutil.which("initdb") or ""))
    for folder in candidates:
        if folder and all(os.access(os.path.join(folder, name), os.X_OK) for name in ("initdb", "postgres")):
            return folder
    return None


def _told_by_pg_config() -> str:
    if shutil.which("pg_config") is None:
        return ""
    return subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True, check=False).stdout.strip()


def _version(folder: str) -> float:
    name = os.path.basename(os.path.dirname(folder))
    return float(name) if name.replace(".", "", 1).isdigit() else 0.0


def _no_server(why: str) -> NoReturn:
    advice = f"{why} Install PostgreSQL 15 or newer, or set PG_BIN or DIBS_TEST_POSTGRES."
    if os.environ.get("CI"):
        pytest.fail(advice)
    pytest.skip(advice)


class Server:
    """One server process. `stop` and `start` may be called again and again: the data stays until `remove`."""

    def __init__(
        self, *, durable: bool = False, settings: tuple[str, ...] = (), standby_of: Server | None = None
    ) -> None:
        found = find_bin()
        if found is None:
            _no_server("There is no PostgreSQL here.")
        self._bin = found
        self._settings = settings if durable else (*_CARELESS, *settings)
        self._account = pwd.getpwnam(unprivileged()) if os.geteuid() == 0 else None
        self.folder = tempfile.mkdtemp(prefix="dibs-pg-")
        self._data = os.path.join(self.folder, "data")
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()
        atexit.register(self.remove)
        if self._account is not None:
            os.chown(self.folder, self._account.pw_uid, self._account.pw_gid)
        if standby_of is None:
            self._run(
                "initdb", "-D", self._data, "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8", "--locale=C.UTF-8"
            )
        else:
            self._run("pg_basebackup", "-D", self._data, "-h", standby_of.folder, "-U", "postgres", "-R", "-c", "fast")
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql:///postgres?host={self.folder}&user=postgres"

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    def start(self) -> None:
        """Start, and wait until it answers."""
        self.launch()
        self._wait()

    def launch(self) -> None:
        """Start without waiting. Not in a thread: the server ends with the thread that started it."""
        settings = ("listen_addresses=", f"unix_socket_directories={self.folder}", "max_connections=100")
        options = [word for setting in (*settings, *self._settings) for word in ("-c", setting)]
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self._process = self._popen("postgres", "-D", self._data, *options, log=log)

    def _wait(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + _START_TIMEOUT
        while True:
            try:
                psycopg2.connect(self.url).close()
            except psycopg2.OperationalError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"PostgreSQL did not start:\n{self.log()[-2000:]}") from None
                time.sleep(0.05)
            else:
                return

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """SIGQUIT stops it immediately, like a power cut; SIGINT ends the sessions first."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(how)
            self._process.wait(120)
        self._process = None

    def kill(self) -> None:
        """SIGKILL for the server and all its sessions: as its machine would end."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(120)
        self._process = None

    def recover_slowly(self, seconds: float) -> None:
        """Let the next start look for archived WAL first, which takes so long for each file: it is "starting up"."""
        with open(os.path.join(self._data, "recovery.signal"), "wb"):
            pass
        self._settings = (*self._settings, f"restore_command=sleep {seconds}; false")

    def promote(self) -> None:
        """Make a standby the primary, and wait until it takes writes."""
        self._run("pg_ctl", "promote", "-D", self._data, "-w", "-t", str(int(_START_TIMEOUT)))

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of one statement, on a new connection."""
        with closing(psycopg2.connect(self.url)) as connection, connection.cursor() as cursor:
            connection.autocommit = True
            cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def log(self) -> str:
        with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def remove(self) -> None:
        if os.getpid() == self._owner:  # and not in a forked child of the tests
            self.stop()
            shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, *words: str) -> None:
        process = self._popen(*words, log=subprocess.PIPE)
        output, _ = process.communicate()
        if process.returncode:
            _no_server(f"{words[0]} failed: {output.decode(errors='replace')[-500:]}")

    def _popen(self, program: str, *words: str, log: int | IO[bytes]) -> subprocess.Popen[bytes]:
        """As an ordinary user, for PostgreSQL refuses to run as root; and never outliving us."""
        account = self._account
        return subprocess.Popen(
            [os.path.join(self._bin, program), *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=self.folder,
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
            start_new_session=True,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call, and the tests start servers from one thread
        )


def unprivileged() -> str:
    names = {account.pw_name for account in pwd.getpwall()}
    return next(name for name in ("postgres", "nobody") if name in names)


_LIBC = ctypes.CDLL(None)


def die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)


@cache
def shared_url() -> str:
    """The server of this test process, started when it is first asked for."""
    given = os.environ.get("DIBS_TEST_POSTGRES")
    return given or Server().url
