"""Embedders with further requirements: MiniLM by numpy, sentence-transformers, and OpenAI-compatible endpoints.

MiniLM reads the published files of all-MiniLM-L6-v2 (model.safetensors and vocab.txt) and agrees with
sentence-transformers to six digits, without torch.
"""

from __future__ import annotations

import json
import math
import os
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from dibs.chat.analyst.embedders import DIMENSIONS, UNKNOWN, pieces
from dibs.chat.analyst.services import Service
from dibs.core.errors import Misconfigured, ServiceUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.chat.analyst.embedders import Vector


NAME = "minilm"
_LAYERS = 6
_HEADS = 12
_MOST_PIECES = 254  # plus a mark at each end
_TEXTS_PER_BATCH = 32
_EPSILON = 1e-12


class MiniLM:
    """Loads the weights on first use, in about 0.2 seconds. A sentence then takes some milliseconds."""

    name = NAME

    def __init__(self, folder: str) -> None:
        self._model, self._vocabulary = (os.path.join(folder, name) for name in ("model.safetensors", "vocab.txt"))
        for file in (self._model, self._vocabulary):
            with open(file, "rb"):  # report a wrong folder at once
                pass

    @cached_property
    def _weights(self) -> dict[str, Any]:
        return _weights(self._model)

    @cached_property
    def _ids(self) -> dict[str, int]:
        with open(self._vocabulary, encoding="utf-8") as lines:
            return {line.rstrip("\n"): number for number, line in enumerate(lines)}

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        return [tuple(row) for row in self.matrix(texts).tolist()]

    def matrix(self, texts: Sequence[str]) -> Any:
        """One row for each text. Texts of similar length share a batch, which saves padding."""
        import numpy as np

        rows = [self._numbers(text) for text in texts]
        order = sorted(range(len(rows)), key=lambda index: len(rows[index]))
        found = np.zeros((len(rows), 384), dtype=np.float32)
        for start in range(0, len(order), _TEXTS_PER_BATCH):
            batch = order[start : start + _TEXTS_PER_BATCH]
            found[batch] = self._forward([rows[index] for index in batch])
        return found

    def _numbers(self, text: str) -> list[int]:
        known = [self._ids.get(piece, self._ids[UNKNOWN]) for piece in pieces(text, self._ids)][:_MOST_PIECES]
        return [self._ids["[CLS]"], *known, self._ids["[SEP]"]]

    def _forward(self, rows: Sequence[Sequence[int]]) -> Any:
        import numpy as np

        length = max(map(len, rows))
        numbers = np.array([[*row, *[0] * (length - len(row))] for row in rows])
        there = np.array([[1.0] * len(row) + [0.0] * (length - len(row)) for row in rows], dtype=np.float32)
        get = self._weights.__getitem__
        state = get("embeddings.word_embeddings.weight")[numbers]
        state = state + get("embeddings.position_embeddings.weight")[:length]
        state = state + get("embeddings.token_type_embeddings.weight")[0]
        state = self._normed(state, "embeddings.LayerNorm")
        hidden = ((1.0 - there) * -1e9)[:, None, None, :]
        for layer in range(_LAYERS):
            state = self._layer(state, hidden, f"encoder.layer.{layer}")
        mean = (state * there[:, :, None]).sum(axis=1) / there.sum(axis=1, keepdims=True)
        return mean / np.linalg.norm(mean, axis=1, keepdims=True)

    def _layer(self, state: Any, hidden: Any, name: str) -> Any:
        seen = self._attended(state, hidden, f"{name}.attention.self")
        state = self._normed(
            state + self._linear(seen, f"{name}.attention.output.dense"), f"{name}.attention.output.LayerNorm"
        )
        inner = _gelu(self._linear(state, f"{name}.intermediate.dense"))
        return self._normed(state + self._linear(inner, f"{name}.output.dense"), f"{name}.output.LayerNorm")

    def _attended(self, state: Any, hidden: Any, name: str) -> Any:
        import numpy as np

        texts, length, width = state.shape

        def heads(part: str) -> Any:
            split = self._linear(state, f"{name}.{part}").reshape(texts, length, _HEADS, width // _HEADS)
            return split.transpose(0, 2, 1, 3)

        scores = heads("query") @ heads("key").transpose(0, 1, 3, 2) / math.sqrt(width / _HEADS) + hidden
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        scores = scores / scores.sum(axis=-1, keepdims=True)
        return (scores @ heads("value")).transpose(0, 2, 1, 3).reshape(texts, length, width)

    def _linear(self, state: Any, name: str) -> Any:
        """Multiply as one product of two matrices: text by text, numpy is three times slower."""
        flat = state.reshape(-1, state.shape[-1]) @ self._weights[f"{name}.weight"].T
        return (flat + self._weights[f"{name}.bias"]).reshape(*state.shape[:-1], -1)

    def _normed(self, state: Any, name: str) -> Any:
        import numpy as np

        centred = state - state.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + _EPSILON)
        return centred / spread * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]


def _gelu(values: Any) -> Any:
    return values * 0.5 * (1.0 + _erf(values / math.sqrt(2.0)))


# Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26: exact to 1.5e-7.
_ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)


def _erf(values: Any) -> Any:
    import numpy as np

    size = np.abs(values)
    step = 1.0 / (1.0 + 0.3275911 * size)
    total = np.zeros_like(step)
    for factor in _ERF:
        total = (total + factor) * step
    return np.sign(values) * (1.0 - total * np.exp(-size * size))


def _weights(path: str) -> dict[str, Any]:
    """The tensors of a safetensors file, which has the length of a JSON header, the header and the numbers."""
    import numpy as np

    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        raw = file.read()
    found: dict[str, Any] = {}
    for name, about in header.items():
        if name == "__metadata__" or about["dtype"] != "F32":
            continue
        start, end = about["data_offsets"]
        flat = np.frombuffer(raw, dtype="<f4", count=(end - start) // 4, offset=start)
        found[name.removeprefix("bert.")] = flat.reshape(about["shape"])
    if "embeddings.word_embeddings.weight" not in found:
        raise Misconfigured(f"{path} does not hold all-MiniLM-L6-v2 in 32-bit numbers.")
    return found


class Transformers:
    """Loads the model on first use, because importing the library alone takes seconds."""

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
            raise Misconfigured(f"{self._named[:200]} does not return {DIMENSIONS} numbers per text. Choose another.")
        return [tuple(map(float, row)) for row in rows]


KEY = "DIBS_EMBEDDING_KEY"
_AT = "https://api.openai.com/v1"
_TEXTS_PER_REQUEST = 256  # texts in one request; servers accept some hundred to two thousand


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
        for start in range(0, len(texts), _TEXTS_PER_REQUEST):
            found += self._batch(texts[start : start + _TEXTS_PER_REQUEST])
        return found

    def _batch(self, texts: Sequence[str]) -> list[Vector]:
        answer = self._service.ask({"model": self._model, "input": list(texts), "dimensions": DIMENSIONS})
        try:
            rows = sorted(answer["data"], key=lambda row: int(row["index"]))
            numbers = [row["embedding"] for row in rows]
            lengths = {len(each) for each in numbers}
            vectors = [_unit(each) for each in numbers]
        except (KeyError, TypeError, ValueError, OverflowError):
            raise ServiceUnavailable("The embedding endpoint did not return embeddings.") from None
        if len(vectors) != len(texts):
            raise ServiceUnavailable(
                f"The embedding endpoint gave {len(vectors)} embeddings for {len(texts)} texts; check the model."
            )
        if lengths != {DIMENSIONS}:
            raise ServiceUnavailable(
                f"The embedding endpoint returned {_told(lengths)} numbers per text instead of {DIMENSIONS}. "
                "Choose another model."
            )
        return vectors


def _told(lengths: set[int]) -> str:
    return " or ".join(map(str, sorted(lengths)))


def _unit(numbers: Any) -> Vector:
    length = math.hypot(*numbers)
    if not length or not math.isfinite(length):
        raise ValueError
    return tuple([number / length for number in numbers])
