"""A PgBouncer of the tests' own in front of a PostgreSQL server, reached through a socket in its folder."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING, Literal

import psycopg2
import pytest
from psycopg2.extensions import parse_dsn

from support.postgres_server import die_with_parent, unprivileged

if TYPE_CHECKING:
    from collections.abc import Iterable

Mode = Literal["session", "transaction"]

_START_TIMEOUT = 300.0
_PORT = 6432  # names the socket in the folder; no such port is opened

_SETTINGS = """
[databases]
pooled = {server} {more}

[pgbouncer]
listen_addr =
unix_socket_dir = {folder}
listen_port = {port}
auth_type = any
pool_mode = {mode}
default_pool_size = {size}
max_client_conn = 200
logfile = {folder}/log
server_login_retry = 0
"""


class Pooler:
    """`stop` and `start` may be called again and again."""

    def __init__(self, server: str, mode: Mode, *, size: int = 20, more: str = "") -> None:
        program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
        if program is None:
            (pytest.fail if os.environ.get("CI") else pytest.skip)("There is no PgBouncer here. Install pgbouncer.")
        self._program = program
        self.folder = tempfile.mkdtemp(prefix="dibs-pool-")
        self._account = pwd.getpwnam(unprivileged()) if os.geteuid() == 0 else None
        if self._account is not None:
            os.chown(self.folder, self._account.pw_uid, self._account.pw_gid)
        words = {name: value for name, value in parse_dsn(server).items() if name in {"host", "port", "dbname", "user"}}
        settings = _SETTINGS.format(
            server=" ".join(f"{name}={value}" for name, value in words.items()),
            more=more, folder=self.folder, port=_PORT, mode=mode, size=size,
        )  # fmt: skip
        with open(os.path.join(self.folder, "pgbouncer.ini"), "w", encoding="utf-8") as file:
            file.write(settings)
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql:///pooled?host={self.folder}&port={_PORT}&user=dibs"

    def start(self) -> None:
        """Start, and wait until it answers."""
        account = self._account
        self._process = subprocess.Popen(
            [self._program, "--quiet", os.path.join(self.folder, "pgbouncer.ini")],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
            start_new_session=True,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call, and the tests start servers from one thread
        )
        deadline = time.monotonic() + _START_TIMEOUT
        while True:
            try:
                psycopg2.connect(self.url).close()
            except psycopg2.OperationalError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"PgBouncer did not start:\n{self._log()[-2000:]}") from None
                time.sleep(0.02)
            else:
                return

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(600)
            self._process = None
        for name in self._sockets():
            os.unlink(os.path.join(self.folder, name))

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _sockets(self) -> Iterable[str]:
        return [name for name in os.listdir(self.folder) if name.startswith(".s.PGSQL")]

    def _log(self) -> str:
        try:
            with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""
