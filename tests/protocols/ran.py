"""What a command left behind."""

import json
from typing import Any, NamedTuple


class Ran(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)["data"]

    @property
    def error(self) -> Any:
        return json.loads(self.out)["error"]
