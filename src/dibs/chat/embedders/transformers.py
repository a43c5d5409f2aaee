"""Any model of sentence-transformers that makes 384 numbers, where that library is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.chat.embed import DIMENSIONS
from dibs.core.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.chat.embed import Vector


class Transformers:
    def __init__(self, model: str) -> None:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError:
            raise Misconfigured(
                "The embedder sentence-transformers needs that library: pip install sentence-transformers."
            ) from None
        self.name = f"sentence-transformers:{model}"
        self._model: Any = SentenceTransformer(model)
        if self._model.get_sentence_embedding_dimension() != DIMENSIONS:
            raise Misconfigured(f"{model} does not make {DIMENSIONS} numbers of a text. Choose a model that does.")

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        rows = self._model.encode(list(texts), normalize_embeddings=True)
        return [tuple(map(float, row)) for row in rows]
