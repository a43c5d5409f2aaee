"""Fit the two models that classify the types of tasks: `python tools/fit_deliverables.py [--patterns]`.

The first is a softmax regression over the features of dibs.chat.analyst.deliverables, fitted to
deliverable_examples.txt. The second is linear over word patterns, fitted to the same examples and to the tasks of
eval/people/train; `--patterns` fits only this one. Needs numpy and scikit-learn.
"""

from __future__ import annotations

import argparse
import json
import os
import random
from collections import Counter
from typing import Any

import numpy as np
from eval import people
from scipy.sparse import csr_matrix
from sklearn.linear_model import SGDClassifier

from dibs.chat.analyst.deliverables import (
    BUCKETS,
    KINDS,
    PATTERN_WEIGHTS,
    WEIGHTS,
    features,
    patterns,
    spoken_words,
)

_SHRINK = 0.004
_ROUNDS = 400
_STEP = 0.3
_FOLDS = 4
_OFTEN = 3  # times that a word is there, to be learned from
_LOUD = 2.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--patterns", action="store_true", help="fit only the model of word patterns")
    only_patterns = parser.parse_args().patterns
    examples = _examples(os.path.join(os.path.dirname(__file__), "deliverable_examples.txt"))
    _fit_patterns([*examples, *_of_people()])
    if only_patterns:
        return
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


def _of_people() -> list[tuple[str, str]]:
    """The tasks of the training writers: the message that asks for each, and its title."""
    found = []
    for burst in people.bursts("train"):
        for name, (message, kind) in burst.tasks.items():
            found += [(kind, burst.messages[message - 1]), (kind, burst.titles[name])]
    return found


def _fit_patterns(examples: list[tuple[str, str]]) -> None:
    rows = [sorted(patterns(text)) for _, text in examples]
    starts = np.cumsum([0, *map(len, rows)])
    values = np.concatenate([np.full(len(row), len(row) ** -0.5) for row in rows])
    table = csr_matrix((values, np.concatenate(rows), starts), shape=(len(rows), BUCKETS))
    fitted = SGDClassifier(loss="log_loss", alpha=3e-5, max_iter=12, tol=None, average=True, random_state=0)
    fitted.fit(table, [KINDS.index(kind) for kind, _ in examples])
    scale = np.abs(fitted.coef_).max() / 127
    with open(PATTERN_WEIGHTS, "wb") as file:
        file.write(f"{scale:.8f}\n".encode() + np.round(fitted.coef_.T / scale).astype(np.int8).tobytes())


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
