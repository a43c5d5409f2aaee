"""Make the embedder that dibs ships: a table of word pieces, fitted so that the sum of a text's pieces points where
all-MiniLM-L6-v2 puts the text.

    python tools/distill_embedder.py MODEL_FOLDER TEXTS.txt [--taught VECTORS.npy]

MODEL_FOLDER holds model.safetensors and vocab.txt; TEXTS.txt has a short text on each line, some ninety thousand of
them and of all walks of life. Those of the shipped table were the definitions and examples of WordNet 3.0, the
one-line descriptions of Debian's packages, and requests put together at random from WordNet's verbs and nouns. Needs
numpy and scipy; takes a quarter of an hour, most of it for the model to read the texts, which --taught keeps for the
next time.
"""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

import numpy as np
from scipy import sparse

from dibs.chat.analyst.embedders import FILE, UNKNOWN, WIDTH, pieces
from dibs.chat.analyst.external_embedders import MiniLM

_HELD_BACK = 3000  # texts for the evaluation, not fitted
_RIDGE = 1.0  # how strongly a piece keeps the vector that the model gives it alone
_ROUNDS = 25
_ABOUT = "word pieces fitted to sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0)"


def main() -> None:
    args = _parser().parse_args()
    model = MiniLM(args.model)
    with open(os.path.join(args.model, "vocab.txt"), encoding="utf-8") as lines:
        vocabulary = [line.rstrip("\n") for line in lines]
    with open(args.texts, encoding="utf-8") as lines:
        texts = lines.read().splitlines()
    taught, alone = _taught(model, vocabulary, texts, args.taught)
    table = _fitted(_counts(texts, vocabulary), taught, alone)
    _write([piece for piece in vocabulary if _kept(piece)], table[[_kept(piece) for piece in vocabulary]])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Fit the built-in embedder to all-MiniLM-L6-v2.")
    parser.add_argument("model")
    parser.add_argument("texts")
    parser.add_argument("--taught", default="taught.npy")
    return parser


def _taught(model: MiniLM, vocabulary: list[str], texts: list[str], file: str) -> tuple[Any, Any]:
    """The model's vectors of each text and of each single piece."""
    if not os.path.exists(file):
        rows = [model.matrix(texts[start : start + 4096]) for start in range(0, len(texts), 4096)]
        rows.append(model.matrix([piece.removeprefix("##") for piece in vocabulary]))
        np.save(file, np.concatenate(rows))
    both = np.load(file)
    return both[: len(texts)], both[len(texts) :]


def _counts(texts: list[str], vocabulary: list[str]) -> Any:
    """A row for each text, a column for each piece."""
    numbers = {piece: number for number, piece in enumerate(vocabulary)}
    found = [[numbers[piece] for piece in pieces(text, numbers) if piece != UNKNOWN] for text in texts]
    rows = np.repeat(np.arange(len(found)), [len(row) for row in found])
    columns = np.array([number for row in found for number in row])
    weights = np.array([len(row) ** -0.5 for row in found for _ in row], dtype=np.float32)
    return sparse.csr_matrix((weights, (rows, columns)), shape=(len(texts), len(vocabulary)))


def _fitted(counts: Any, taught: Any, alone: Any) -> Any:
    """Ridge regression by conjugate gradients, starting from the vectors of the single pieces."""
    learn, goal = counts[:-_HELD_BACK], taught[:-_HELD_BACK]
    first = learn @ alone
    table = alone * ((first * goal).sum() / (first * first).sum())
    transposed = learn.T.tocsr()
    rest = transposed @ (goal - learn @ table)
    step, size = rest.copy(), (rest * rest).sum(axis=0)
    for _ in range(_ROUNDS):
        moved = transposed @ (learn @ step) + _RIDGE * step
        far = size / ((step * moved).sum(axis=0) + 1e-12)
        table += far * step
        rest -= far * moved
        before, size = size, (rest * rest).sum(axis=0)
        step = rest + size / (before + 1e-12) * step
    found = counts[-_HELD_BACK:] @ table
    found /= np.linalg.norm(found, axis=1, keepdims=True) + 1e-9
    print(f"mean cosine to the model, texts held back: {(found * taught[-_HELD_BACK:]).sum(axis=1).mean():.3f}")
    return table


def _kept(piece: str) -> bool:
    return piece.isascii() and not (piece.startswith("[") and len(piece) > 1)


def _write(vocabulary: list[str], table: Any) -> None:
    """The main directions only, a signed byte for each number and one scale for each piece."""
    left, sizes, _ = np.linalg.svd(table, full_matrices=False)
    narrow = left[:, :WIDTH] * sizes[:WIDTH]
    scales = (np.abs(narrow).max(axis=1) / 127 + 1e-9).astype("<f4")
    rows = np.round(narrow / scales[:, None]).astype(np.int8)
    words = "\n".join(vocabulary).encode()
    header = {"about": _ABOUT, "pieces": len(vocabulary), "width": WIDTH, "words": len(words)}
    with open(FILE, "wb") as file:
        file.write(json.dumps(header).encode() + b"\n" + words + scales.tobytes() + rows.tobytes())
    print(f"{FILE}: {len(vocabulary)} pieces, {os.path.getsize(FILE) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
