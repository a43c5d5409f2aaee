"""Texts to vectors of 384 numbers and unit length. Which embedder does it is a setting; the built-in one is always
there.

    builtin                              shipped with dibs; needs nothing, takes a fraction of a millisecond
    minilm:FOLDER                        all-MiniLM-L6-v2 itself, from its published files; needs numpy
    sentence-transformers[:MODEL]        any model of that library, if it is installed
    openai:MODEL or openai:MODEL@URL     an OpenAI-compatible endpoint; the key is in DIBS_EMBEDDING_KEY

Vectors of different embedders cannot be compared: whoever changes the setting embeds the open tasks anew.
"""

from __future__ import annotations

from operator import mul
from typing import TYPE_CHECKING, Protocol, TypeAlias

from dibs.core.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Vector: TypeAlias = "tuple[float, ...]"

DIMENSIONS = 384
DEFAULT = "builtin"


class Embedder(Protocol):
    """`name` says which vectors can be compared with each other."""

    @property
    def name(self) -> str: ...

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """One vector for each text, of unit length."""
        ...


def open_embedder(setting: str, environment: Mapping[str, str]) -> Embedder:
    """The embedder that a setting names, or Misconfigured with what to do."""
    kind, _, rest = setting.partition(":")
    if kind == DEFAULT and not rest:
        from dibs.chat.embedders.builtin import Builtin

        return Builtin()
    if kind == "minilm" and rest:
        return _minilm(rest)
    if kind == "sentence-transformers":
        from dibs.chat.embedders.transformers import Transformers

        return Transformers(rest or "all-MiniLM-L6-v2")
    if kind == "openai" and rest:
        from dibs.chat.embedders.endpoint import Endpoint

        return Endpoint.from_setting(rest, environment.get("DIBS_EMBEDDING_KEY", ""))
    raise Misconfigured(
        f"There is no embedder '{setting[:60]}'. Set builtin, minilm:FOLDER, sentence-transformers or openai:MODEL@URL."
    )


def _minilm(folder: str) -> Embedder:
    from importlib.util import find_spec

    from dibs.chat.analyst.external_embedders import MiniLM

    if find_spec("numpy") is None:
        raise Misconfigured("The embedder minilm needs numpy: pip install 'dibs[semantic]'.")
    try:
        return MiniLM(folder)
    except OSError as error:
        raise Misconfigured(
            f"Cannot read all-MiniLM-L6-v2 in {folder}: {error.strerror}. The folder has to hold model.safetensors "
            "and vocab.txt."
        ) from None


def cosine(one: Vector, other: Vector) -> float:
    """Of two vectors of unit length."""
    product: float = sum(map(mul, one, other))
    return product
