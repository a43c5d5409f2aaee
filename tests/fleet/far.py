"""Workers that reach their store over a network, which a test can cut."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from support.host_clock import HostClock

if TYPE_CHECKING:
    from dibs.lab.torture.proxies import Proxy
    from support.workers import Place, Working

_SCRIPT = Path(__file__).with_name("far_host.py")
_NEW_NETWORK = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]


class Far(Protocol):
    def work(self, *words: str) -> Working: ...

    def lose_network(self) -> None: ...

    def find_network(self) -> None: ...


def namespaces() -> bool:
    """Whether this machine allows network namespaces."""
    tried = [*_NEW_NETWORK, "ip", "link", "set", "lo", "up"]
    try:
        return subprocess.run(tried, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


class BehindProxy:
    """A worker on this host behind a proxy: connections stay open, but nothing passes."""

    def __init__(self, place: Place, proxy: Proxy, url: str) -> None:
        self._place, self._proxy, self._url = place, proxy, url

    def work(self, *words: str) -> Working:
        return self._place.work(*words, store=self._url)

    def lose_network(self) -> None:
        self._proxy.black_hole()

    def find_network(self) -> None:
        self._proxy.heal()


class InNamespace:
    """A worker in its own network namespace, like another host."""

    def __init__(self, place: Place, server: str, schema: str) -> None:
        self._place, self._server, self._schema = place, server, schema
        self._pid = 0

    def work(self, *words: str) -> Working:
        under = (*_NEW_NETWORK, sys.executable, str(_SCRIPT), self._server, self._schema)
        started = self._place.work(*words, under=under, PYTHONPATH=HostClock.python_path(str(_SCRIPT.parents[1])))
        self._pid = started.process.pid
        return started

    def lose_network(self) -> None:
        self._set("down")

    def find_network(self) -> None:
        self._set("up")

    def _set(self, state: str) -> None:
        into = ["nsenter", f"--target={self._pid}", "--net"]
        if os.geteuid():
            into += ["--user", "--preserve-credentials"]
        subprocess.run([*into, "ip", "link", "set", "lo", state], check=True)
