"""Java programs that the tests need, fetched once with Maven into the user's cache folder."""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
from functools import partial

_FETCH_TIMEOUT = 1800.0
_PR_SET_PDEATHSIG = 1

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>dibs.tools</groupId><artifactId>fetched</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>{dependencies}</dependencies>
</project>
"""
_DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"


class NotFetched(Exception):
    """Why it could not be fetched, or run, and what to do."""


def libraries(name: str, version: str, *artifacts: str) -> str:
    """The folder with these `group:artifact`s and all that they need; the first call on a machine fetches them."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = os.path.join(cache, "dibs", f"{name}-{version}")
    found = os.path.join(folder, "lib")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of several test processes one fetches, the others wait for it
        if not os.path.isdir(found):
            pairs = [artifact.split(":") for artifact in artifacts]
            _fetch(name, folder, "".join(_DEPENDENCY.format(*pair, version) for pair in pairs), found)
    return found


def _fetch(name: str, folder: str, dependencies: str, found: str) -> None:
    if shutil.which("mvn") is None:
        raise NotFetched(f"{name} is fetched with Maven, and there is no 'mvn' here.")
    for left in os.scandir(folder):
        if left.is_dir():  # by a process that was killed while downloading
            shutil.rmtree(left)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        with open(os.path.join(work, "pom.xml"), "w", encoding="utf-8") as pom:
            pom.write(_POM.format(dependencies=dependencies))
        copy = ["mvn", "-q", "-B", "--strict-checksums", "dependency:copy-dependencies", "-DoutputDirectory=lib"]
        try:
            done = subprocess.run(
                copy,
                cwd=work,
                capture_output=True,
                text=True,
                check=False,
                timeout=_FETCH_TIMEOUT,
                preexec_fn=partial(die_with, os.getpid()),
            )
        except subprocess.TimeoutExpired:
            raise NotFetched(f"Maven did not finish fetching {name}. Is there a way to its repository?") from None
        if done.returncode:
            raise NotFetched(f"Maven could not fetch {name}: {(done.stdout + done.stderr)[-500:].strip()}")
        os.rename(os.path.join(work, "lib"), found)  # whole or not at all


def java(what: str) -> str:
    """The Java that is to run it."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=os.path.join(home, "bin") if home else None)
    if found is None:
        raise NotFetched(f"{what} runs on Java 17 or newer, and there is no 'java' here.")
    return found


_LIBC = ctypes.CDLL(None)


def die_with(parent: int) -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it was gone before it could be asked for
        os._exit(1)
