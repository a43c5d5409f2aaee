"""Workers that reach their store over a network, and lose it when a test says so."""

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
    """Whether this machine lets us have networks of our own."""
    tried = [*_NEW_NETWORK, "ip", "link", "set", "lo", "up"]
    try:
        return subprocess.run(tried, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


class BehindProxy:
    """On this host, by way of a proxy: connections stay open, and nothing passes on them."""

    def __init__(self, place: Place, proxy: Proxy, url: str) -> None:
        self._place, self._proxy, self._url = place, proxy, url

    def work(self, *words: str) -> Working:
        return self._place.work(*words, store=self._url)

    def lose_network(self) -> None:
        self._proxy.black_hole()

    def find_network(self) -> None:
        self._proxy.heal()


class InNamespace:
    """On a host of its own, as far as the network is concerned."""

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
