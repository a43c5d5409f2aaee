"""That an agent is at work: one of each name in a vault, and what the last one of that name left behind."""

from __future__ import annotations

import fcntl
import json
import os
import time
from typing import TYPE_CHECKING

from dibs.core.errors import Held, InvalidInput, StoreUnavailable
from dibs.protocols.vault.health import State, state_from
from dibs.stores.vault.names import agent_folder
from dibs.stores.vault.vault import HOME

if TYPE_CHECKING:
    from datetime import datetime

_FOLDER = "agents"
_TRIES, _MOMENT = 5, 0.02


class Presence:
    """Held from an agent's start to its end; a process that dies gives it back. Its state can be read by others."""

    def __init__(self, root: str, agent: str) -> None:
        self._agent = agent
        self._path = state_path(root, agent)
        self.state: State
        try:
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            self._fd = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise StoreUnavailable(f"{self._path} cannot be written: {error.strerror}.") from None
        if not self._seize():
            os.close(self._fd)
            raise Held(
                f"An agent '{agent}' is at work in this vault already. Give this one another name (AGENT_NAME).",
                holder=agent,
            )
        self.before = read_state(self._path)

    def _seize(self) -> bool:
        """Whoever asks whether we are running has the lock for a moment: try more than once."""
        for _ in range(_TRIES):
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(_MOMENT)
            else:
                return True
        return False

    def begin(self, run: str, role: str, now: datetime) -> None:
        """A run begins. Once its state is saved, it is the one whose claims a later run would find."""
        self.state = State(self._agent, role, run, os.getpid(), now, now)

    def update(self, **changes: object) -> None:
        self.state = self.state._replace(**changes)  # type: ignore[arg-type]  # fields of State

    def save(self) -> None:
        """Put the state where others can read it; StoreUnavailable if there is no room."""
        fresh = f"{self._path}.new"
        try:
            with open(fresh, "w", encoding="utf-8") as file:
                json.dump(self.state.as_json(), file, ensure_ascii=False)
            os.replace(fresh, self._path)
        except OSError as error:
            raise StoreUnavailable(f"{self._path} cannot be written: {error.strerror}.") from None

    def close(self) -> None:
        os.close(self._fd)


def state_path(root: str, agent: str) -> str:
    return os.path.join(root, HOME, _FOLDER, f"{agent_folder(agent)}.json")


def read_state(path: str) -> State | None:
    """What was left there; None if that is nothing, or nothing that makes sense."""
    try:
        with open(path, encoding="utf-8") as file:
            return state_from(json.load(file))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, InvalidInput):
        return None  # cut off by a crash, or not ours: its claims end with their leases


def is_running(root: str, agent: str) -> bool:
    """Whether a process holds the place of this agent."""
    try:
        fd = os.open(f"{state_path(root, agent)}.lock", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def everyone(root: str) -> list[State]:
    """The agents that are or were at work here."""
    folder = os.path.join(root, HOME, _FOLDER)
    try:
        found = sorted(name for name in os.listdir(folder) if name.endswith(".json"))
    except FileNotFoundError:
        return []
    states = (read_state(os.path.join(folder, name)) for name in found)
    return [state for state in states if state is not None]
