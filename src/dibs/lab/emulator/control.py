"""The emulator's own addresses, `/_emulator/…`: what a test does in-process, for other processes and languages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dibs.lab.emulator.errors import ApiError
from dibs.lab.emulator.presets import preset
from dibs.lab.emulator.wire import json_answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.lab.emulator.emulator import Emulator
    from dibs.lab.emulator.wire import Answer, Request

PREFIX = "/_emulator/"


class Control:
    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self._verbs: dict[str, Callable[[dict[str, Any]], Any]] = {
            "POST clock": self._clock,
            "POST bot": self._bot,
            "POST database": self._database,
            "POST page": self._page,
            "POST human/edit": lambda said: emulator.human.edit(said["page_id"], said["properties"]),
            "POST human/trash": lambda said: emulator.human.trash(said["page_id"]),
            "POST human/restore": lambda said: emulator.human.restore(said["page_id"]),
            "POST human/comment": lambda said: {"id": emulator.human.comment(said["page_id"], said["text"])},
            "POST human/unshare": lambda said: emulator.human.unshare(said["id"], said.get("token")),
            "POST human/share": lambda said: emulator.human.share(said["id"]),
            "POST human/columns": lambda said: emulator.human.change_columns(said["database_id"], said["properties"]),
            "POST faults": emulator.faults.set,
            "POST faults/next": lambda said: emulator.faults.next(**said),
            "POST faults/clear": lambda _said: emulator.faults.clear(),
            "GET requests": self._requests,
            "POST requests/clear": lambda _said: emulator.requests.clear(),
        }

    def answer(self, request: Request) -> Answer:
        verb = f"{request.method} {request.path.removeprefix(PREFIX)}"
        if verb not in self._verbs:
            return json_answer(404, {"error": f"no such verb: {verb}", "verbs": sorted(self._verbs)})
        try:
            said = json.loads(request.body or b"{}")
            done = self._verbs[verb](said)
        except ApiError as error:
            return json_answer(error.status, {"error": error.message})
        except (ValueError, TypeError, KeyError) as error:
            return json_answer(400, {"error": f"{type(error).__name__}: {error}"})
        return json_answer(200, {"ok": True} if done is None else done)

    def _clock(self, said: dict[str, Any]) -> dict[str, str]:
        return {"now": self._emulator.advance(said.get("advance", 0)).isoformat()}

    def _bot(self, said: dict[str, Any]) -> dict[str, str]:
        asked = said.get("capabilities")
        return {"token": self._emulator.bot(None if asked is None else frozenset(asked))}

    def _database(self, said: dict[str, Any]) -> dict[str, str]:
        schema = preset(said["preset"]) if "preset" in said else said["properties"]
        return self._emulator.database(schema, said.get("title", "Tasks"))._asdict()

    def _page(self, said: dict[str, Any]) -> dict[str, str]:
        return {"id": self._emulator.page(said["database_id"], said["properties"])}

    def _requests(self, _said: dict[str, Any]) -> dict[str, Any]:
        served = [{**one._asdict(), "at": one.at.isoformat()} for one in self._emulator.requests]
        return {"requests": served, "count": len(served)}
