"""An OpenAI-compatible endpoint: POST …/embeddings with a model and texts, vectors back. The standard library is
enough."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from dibs.chat.embed import DIMENSIONS
from dibs.core.errors import Misconfigured, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.chat.embed import Vector

_AT = "https://api.openai.com/v1"
_TIMEOUT = 20  # seconds
_MOST_BYTES = 64 << 20


class Endpoint:
    """The key goes into one header and nowhere else."""

    def __init__(self, model: str, url: str, key: str) -> None:
        if not url.startswith(("https://", "http://")):
            raise Misconfigured("The address of an embedding endpoint begins with https:// or http://.")
        self.name = f"openai:{model}"
        self._model = model
        self._url = url.rstrip("/") + "/embeddings"
        self._key = key

    @classmethod
    def from_setting(cls, setting: str, key: str) -> Endpoint:
        model, _, url = setting.partition("@")
        return cls(model, url or _AT, key)

    def __repr__(self) -> str:
        return f"Endpoint({self.name})"

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        if not texts:
            return []
        answer = self._ask({"model": self._model, "input": list(texts), "dimensions": DIMENSIONS})
        try:
            rows = sorted(answer["data"], key=lambda row: int(row["index"]))
            vectors = [_unit(row["embedding"]) for row in rows]
        except (KeyError, TypeError, ValueError):
            raise StoreUnavailable("The embedding endpoint answered with something else than embeddings.") from None
        if len(vectors) != len(texts) or any(len(vector) != DIMENSIONS for vector in vectors):
            raise Misconfigured(
                f"The embedding endpoint did not give {DIMENSIONS} numbers for each text. Choose a model that can."
            )
        return vectors

    def _ask(self, body: dict[str, object]) -> Any:
        from urllib.error import HTTPError, URLError
        from urllib.request import Request, urlopen

        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self._key}"} if self._key else {})
        request = Request(self._url, json.dumps(body).encode(), headers)  # noqa: S310 - http or https, checked above
        try:
            with urlopen(request, timeout=_TIMEOUT) as answer:  # noqa: S310 - the same
                return json.loads(answer.read(_MOST_BYTES))
        except HTTPError as error:
            raise StoreUnavailable(f"The embedding endpoint refused with HTTP status {error.code}.") from None
        except (URLError, TimeoutError, ValueError, OSError):
            raise StoreUnavailable(
                f"The embedding endpoint did not answer within {_TIMEOUT} seconds, or not in JSON. Try again."
            ) from None


def _unit(numbers: Sequence[float]) -> Vector:
    length = math.hypot(*numbers)
    if not length or not math.isfinite(length):
        raise ValueError
    return tuple([number / length for number in numbers])
