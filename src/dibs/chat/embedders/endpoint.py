"""An OpenAI-compatible endpoint: POST …/embeddings with a model and texts, vectors back."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dibs.chat.analyst.embedders import DIMENSIONS
from dibs.chat.analyst.services import Service
from dibs.core.errors import ServiceUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.chat.analyst.embedders import Vector

KEY = "DIBS_EMBEDDING_KEY"
_AT = "https://api.openai.com/v1"
_BATCH = 256  # texts in one request; servers take from some hundred to two thousand


class Endpoint:
    def __init__(self, model: str, service: Service) -> None:
        self.name = f"openai:{model}"
        self._model = model
        self._service = service

    @classmethod
    def from_setting(cls, setting: str, key: str) -> Endpoint:
        model, _, url = setting.partition("@")
        return cls(
            model, Service("The embedding endpoint", f"{(url or _AT).rstrip('/')}/embeddings", key, key_name=KEY)
        )

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        found: list[Vector] = []
        for start in range(0, len(texts), _BATCH):
            found += self._batch(texts[start : start + _BATCH])
        return found

    def _batch(self, texts: Sequence[str]) -> list[Vector]:
        answer = self._service.ask({"model": self._model, "input": list(texts), "dimensions": DIMENSIONS})
        try:
            rows = sorted(answer["data"], key=lambda row: int(row["index"]))
            numbers = [row["embedding"] for row in rows]
            lengths = {len(each) for each in numbers}
            vectors = [_unit(each) for each in numbers]
        except (KeyError, TypeError, ValueError, OverflowError):
            raise ServiceUnavailable("The embedding endpoint answers with something else than embeddings.") from None
        if len(vectors) != len(texts):
            raise ServiceUnavailable(
                f"The embedding endpoint gave {len(vectors)} embeddings for {len(texts)} texts; check the model."
            )
        if lengths != {DIMENSIONS}:
            raise ServiceUnavailable(
                f"The embedding endpoint does not give {DIMENSIONS} numbers for a text but {_told(lengths)}: choose a "
                "model that can."
            )
        return vectors


def _told(lengths: set[int]) -> str:
    return " or ".join(map(str, sorted(lengths)))


def _unit(numbers: Any) -> Vector:
    length = math.hypot(*numbers)
    if not length or not math.isfinite(length):
        raise ValueError
    return tuple([number / length for number in numbers])
