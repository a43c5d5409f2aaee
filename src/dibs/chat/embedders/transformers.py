"""Any model of sentence-transformers that makes 384 numbers, where that library is installed."""

from __future__ import annotations

from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from dibs.chat.analyst.embedders import DIMENSIONS
from dibs.core.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.chat.analyst.embedders import Vector


class Transformers:
    """Loads the model when it is first needed: importing the library alone takes seconds."""

    def __init__(self, model: str) -> None:
        if find_spec("sentence_transformers") is None:
            raise Misconfigured(
                "The embedder sentence-transformers needs that library: pip install sentence-transformers."
            )
        self.name = f"sentence-transformers:{model}"
        self._named = model

    @cached_property
    def _model(self) -> Any:
        from sentence_transformers import SentenceTransformer

        try:
            return SentenceTransformer(self._named)
        except (OSError, ValueError):
            raise Misconfigured(
                f"sentence-transformers cannot load {self._named[:200]}. Give the name of a model it can reach, or "
                "the folder of one."
            ) from None

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        rows = self._model.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)
        if any(len(row) != DIMENSIONS for row in rows):
            raise Misconfigured(f"{self._named[:200]} does not make {DIMENSIONS} numbers of a text. Choose another.")
        return [tuple(map(float, row)) for row in rows]
