"""A temporary Neo4j server, downloaded once with Maven.

    python tools/neo4j_server.py [SETTING=VALUE ...]      one to try, until Ctrl-C

It needs Java 17 or newer, and Maven the first time. The download (128 MB) stays in the user's cache folder. It
listens on the loopback interface only, on a free port, with a random password. Server and folder end with their
owner.
"""

from __future__ import annotations

import atexit
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from functools import partial

from janitor import janitor_of
from maven import NotFetched, die_with, java, libraries

VERSION = os.environ.get("NEO4J_VERSION", "5.26.0")

_START_TIMEOUT = 600.0

# Options of Neo4j's start script.
_OPENS = ("java.base/java.nio", "java.base/java.io", "java.base/sun.nio.ch", "java.base/java.util.concurrent")


class NoServer(Exception):
    """The server cannot run here; the message says what to do."""


def _needed() -> tuple[str, str]:
    """Java, and the folder with the server's libraries."""
    try:
        return java("Neo4j"), libraries("neo4j", VERSION, "org.neo4j.app:neo4j-server", "org.neo4j:neo4j")
    except NotFetched as error:
        raise NoServer(str(error)) from None


class Server:
    """One server process. `stop` and `start` may be called again and again: the data stays until `remove`."""

    user = "neo4j"

    def __init__(
        self,
        *,
        settings: tuple[str, ...] = (),
        heap: str = "384m",
        options: tuple[str, ...] = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=160m"),
    ) -> None:
        """`options` of the Java machine: by default for a fast start instead of a fast server.

        They also enlarge the code cache, which would be too small with one compiler.
        """
        self._java, self._libraries = _needed()
        self.settings = settings
        self._heap = heap
        self._options = options
        self.password = secrets.token_urlsafe(12)
        self._has_password = False
        self._reserved = socket.socket()  # it never listens, so the server can, and no other process gets the port
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind(("127.0.0.1", 0))
        self.port: int = self._reserved.getsockname()[1]
        self.folder = tempfile.mkdtemp(prefix="dibs-neo4j-")
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()
        self._janitor = janitor_of(self.folder)
        atexit.register(self.remove)
        self._configure()
        self.start()

    @property
    def uri(self) -> str:
        return f"bolt://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    def start(self, *, settings: tuple[str, ...] | None = None) -> None:
        """Start, and wait until Bolt answers. `settings` replace the former ones."""
        if settings is not None:
            self.settings = settings
            self._configure()
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self._process = subprocess.Popen(
                [self._java, "-cp", os.path.join(self._libraries, "*"), f"-Xms{self._heap}", f"-Xmx{self._heap}",
                 "-XX:+UseSerialGC", *self._options, "-Dfile.encoding=UTF-8",
                 *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENS),
                 "org.neo4j.server.CommunityEntryPoint",
                 f"--home-dir={self.folder}", f"--config-dir={os.path.join(self.folder, 'conf')}"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=partial(die_with, os.getpid()),  # noqa: PLW1509 - two system calls
            )  # fmt: skip
        deadline = time.monotonic() + _START_TIMEOUT
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise self._failure()
            time.sleep(0.1)

    def _failure(self) -> NoServer:
        said = self.log()
        self.remove()
        if "UnsupportedClassVersionError" in said:
            return NoServer(f"Neo4j runs on Java 17 or newer, and {self._java} is older.")
        return NoServer(f"Neo4j did not start:\n{said[-2000:]}")

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        """SIGKILL acts like a power cut; SIGTERM lets the server finish."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(how)
            self._process.send_signal(signal.SIGCONT)  # a stopped process ignores SIGTERM
            self._process.wait(600)
        self._process = None

    def signal(self, what: signal.Signals) -> None:
        """SIGSTOP, for example, stops it while its port stays open."""
        assert self._process is not None
        self._process.send_signal(what)

    def log(self) -> str:
        with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def remove(self) -> None:
        if os.getpid() == self._owner:  # and not in a forked child
            self.stop()
            self._janitor.communicate()
            self._reserved.close()
            atexit.unregister(self.remove)

    def _configure(self) -> None:
        for name in ("conf", "data", "logs", "run", "plugins", "import"):
            os.makedirs(os.path.join(self.folder, name), exist_ok=True)
        settings = {
            "server.bolt.listen_address": f"127.0.0.1:{self.port}",
            "server.bolt.advertised_address": f"127.0.0.1:{self.port}",
            "server.http.enabled": "false",
            "server.https.enabled": "false",
            "dbms.usage_report.enabled": "false",
            "server.config.strict_validation.enabled": "false",  # older versions do not know all of these
            "server.memory.pagecache.size": "128m",
            **dict(setting.split("=", 1) for setting in self.settings),
        }
        with open(os.path.join(self.folder, "conf", "neo4j.conf"), "w", encoding="utf-8") as file:
            file.writelines(f"{name}={value}\n" for name, value in settings.items())

    def _answers(self) -> bool:
        if not _listens(self.port):
            return False
        if not self._has_password:
            change = "ALTER CURRENT USER SET PASSWORD FROM 'neo4j' TO $password"
            self._has_password = self._carries_out(change, "neo4j", "system", password=self.password)
        return self._has_password and self._carries_out("RETURN 1", self.password)

    def _carries_out(self, statement: str, as_password: str, database: str = "neo4j", **parameters: str) -> bool:
        import neo4j
        from neo4j.exceptions import DriverError, Neo4jError

        try:
            with neo4j.GraphDatabase.driver(self.uri, auth=(self.user, as_password)) as driver:
                driver.execute_query(statement, parameters, database_=database)
        except (DriverError, Neo4jError):
            return False
        return True


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def main() -> None:
    try:
        server = Server(settings=tuple(sys.argv[1:]))
    except NoServer as error:
        sys.exit(str(error))
    print(f"export NEO4J_URI={server.uri} NEO4J_USER={server.user} NEO4J_PASSWORD={server.password}", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        signal.pause()
    except KeyboardInterrupt:
        print("Stopping.")


if __name__ == "__main__":
    main()
