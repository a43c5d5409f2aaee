"""Fit what tells the kinds of deliverables apart: `python tools/fit_deliverables.py` reads deliverable_examples.txt,
writes the weights.

A softmax regression over what dibs.chat.analyst.deliverables makes of a request. Needs numpy.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from typing import Any

import numpy as np

from dibs.chat.analyst.deliverables import KINDS, WEIGHTS, features, spoken_words

_SHRINK = 0.004
_ROUNDS = 400
_STEP = 0.3
_FOLDS = 4
_OFTEN = 3  # times that a word is there, to be learned from
_LOUD = 2.0


def main() -> None:
    examples = _examples(os.path.join(os.path.dirname(__file__), "deliverable_examples.txt"))
    counts = Counter(word for _, text in examples for word in spoken_words(text))
    known = sorted(word for word, count in counts.items() if count >= _OFTEN)
    inputs = np.array([[*features(text), *_said(text, known)] for _, text in examples])
    goals = np.array([KINDS.index(kind) for kind, _ in examples])
    weights = _fitted(inputs, goals).round(3)
    own, spoken = weights[: -len(known)].T, weights[-len(known) :] * _LOUD
    found = {"features": own.tolist(), "words": dict(zip(known, spoken.round(3).tolist(), strict=True))}
    with open(WEIGHTS, "w", encoding="utf-8") as file:
        json.dump(found, file, separators=(",", ":"), ensure_ascii=False)
        file.write("\n")
    print(f"{len(examples)} examples; right on those left out of {_FOLDS} fittings: {_left_out(inputs, goals):.3f}")


def _said(text: str, known: list[str]) -> list[float]:
    said = spoken_words(text)
    return [_LOUD if word in said else 0.0 for word in known]


def _examples(path: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    kind = ""
    with open(path, encoding="utf-8") as file:
        for line in file:
            text = line.strip()
            if text.startswith("["):
                kind = text.strip("[]")
            elif text and not text.startswith("#"):
                found.append((kind, text))
    random.Random(1).shuffle(found)
    return found


def _fitted(inputs: Any, goals: Any) -> Any:
    wanted = np.eye(len(KINDS))[goals]
    weights = np.zeros((inputs.shape[1], len(KINDS)))
    speed = np.zeros_like(weights)
    for _ in range(_ROUNDS):
        scores = inputs @ weights
        chance = np.exp(scores - scores.max(axis=1, keepdims=True))
        chance /= chance.sum(axis=1, keepdims=True)
        slope = inputs.T @ (chance - wanted) / len(inputs) + _SHRINK * weights
        speed = 0.9 * speed - _STEP * slope
        weights = weights + speed
    return weights


def _left_out(inputs: Any, goals: Any) -> float:
    fold = np.arange(len(goals)) % _FOLDS
    right = 0
    for number in range(_FOLDS):
        weights = _fitted(inputs[fold != number], goals[fold != number])
        right += int(((inputs[fold == number] @ weights).argmax(axis=1) == goals[fold == number]).sum())
    return right / len(goals)


if __name__ == "__main__":
    main()
