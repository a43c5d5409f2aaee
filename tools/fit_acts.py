"""Fit the model of message acts (src/dibs/chat/language/acts.bin) to the texts of the training writers.

    python tools/fit_acts.py           fit and write the file
    python tools/fit_acts.py --check   leave out one writer after the other, and print how the rest understand them

It learns from eval/people/train, from eval/dev, and from phrases in eval/phrases, which were written for this purpose
and are multiplied here: (a|b) is a or b, {T} and {U} are open tasks, {N} is new work. It needs numpy and scikit-learn.
The writers of eval/people/test are not read.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from eval import people, reading
from scipy.sparse import csr_matrix, vstack
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.preprocessing import StandardScaler

from dibs.chat.analyst.understanding import Titles, features
from dibs.chat.language.acts import BUCKETS, CLASSES, FILE, STEERING, bucket, folded, patterns, tokens

PHRASES = Path(people.__file__).parent / "phrases"
EACH = 25  # texts generated from each phrase
REAL = 3.0  # weight of a text by a person, relative to a generated one
LEXICON = ("names", "things", "people", "times", "works")
ARTICLE = re.compile(r"^(?:the|die|der|das|les|le|la|l'|el|los|las) ?")
HALVES = 2
SECOND = 3  # texts of each phrase that the second model learns from
MADE = 0.2  # their weight
GROUPS = ("request", "steering", "other")


class Text(NamedTuple):
    text: str
    open: tuple[str, ...]
    label: str  # a class, or empty where none fits


# The phrases


def parsed(line: str) -> Any:
    """Alternatives, each a list of characters and further alternatives."""
    stack: list[list[list[Any]]] = [[[]]]
    escaped = False
    for char in line.replace(",?", "(,|)"):
        if escaped or char not in "\\(|)":
            stack[-1][-1].append(char)
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == "(":
            stack.append([[]])
        elif char == "|" and len(stack) > 1:
            stack[-1].append([])
        elif char == ")" and len(stack) > 1:
            done = stack.pop()
            stack[-1][-1].append(done)
        else:
            stack[-1][-1].append(char)
    return stack[0]


def chosen(tree: Any, draw: random.Random) -> str:
    return "".join(part if isinstance(part, str) else chosen(part, draw) for part in draw.choice(tree))


def split_outside(line: str) -> list[str]:
    """At the bars that are in no parenthesis."""
    found, depth = [""], 0
    for char in line:
        depth += (char == "(") - (char == ")")
        if char == "|" and not depth:
            found.append("")
        else:
            found[-1] += char
    return found


class Phrases:
    """One language's file."""

    def __init__(self, file: Path) -> None:
        self.words: dict[str, list[Any]] = {name: [] for name in LEXICON}
        self.rules: list[tuple[str, Any]] = []
        kind = ""
        for line in file.read_text(encoding="utf-8").splitlines():
            if line.startswith("= "):
                kind = line[2:].removeprefix("command ")
            elif line and not line.startswith("#"):
                if kind in LEXICON:
                    self.words[kind] += split_outside(line)
                else:
                    self.rules.append((kind, parsed(line)))
        self.words["works"] = [parsed(one) for one in self.words["works"]]
        self.by_kind = {kind: [tree for name, tree in self.rules if name == kind] for kind, _ in self.rules}
        settings = json.loads((PHRASES / "noise.json").read_text(encoding="utf-8"))[file.stem]
        self.pronouns, self.verbs, self.openings = settings["pronouns"], settings["verbs"], settings["openings"]

    def made(self, kind: str, tree: Any, draw: random.Random) -> Text:
        names = draw.sample(self.words["names"], draw.randint(2, 6))
        titles = [self._title(name, draw) for name in names]
        one, other, chance = names[0], names[1], draw.random()
        if chance < 0.12:
            one = draw.choice(self.pronouns)
        elif chance < 0.22 and kind in STEERING:
            titles = titles[2:]
        if kind not in STEERING and draw.random() < 0.5:
            titles = [title for title in titles if draw.random() < 0.5]
        text = self._filled(chosen(tree, draw), (ARTICLE.sub("", one) if draw.random() < 0.3 else one, other), draw)
        if draw.random() < 0.25 and kind not in ("chatter", "quote"):
            text = draw.choice(self.openings) + text
        if draw.random() < 0.08 and kind != "quote":
            more = self._filled(
                chosen(draw.choice(self.by_kind[draw.choice(("report", "chatter"))]), draw), (one, other), draw
            )
            text = more + draw.choice((". ", ", ", " - ", " ")) + text if draw.random() < 0.6 else f"{text}. {more}"
        draw.shuffle(titles)
        return Text(_noisy(text, kind, draw), tuple(titles), kind)

    def _title(self, name: str, draw: random.Random) -> str:
        bare, verb = ARTICLE.sub("", name), draw.choice(self.verbs)
        title = bare if draw.random() < 0.3 else verb.replace("_", bare)
        return f"{title} {draw.choice(self.words['things'])}" if draw.random() < 0.3 else title

    def _filled(self, text: str, tasks: tuple[str, str], draw: random.Random) -> str:
        while "{N}" in text:
            text = text.replace("{N}", chosen(draw.choice(self.words["works"]), draw), 1)
        text = text.replace("{T}", tasks[0]).replace("{U}", tasks[1])
        for slot, kind in (("{O}", "things"), ("{P}", "people"), ("{D}", "times")):
            while slot in text:
                text = text.replace(slot, draw.choice(self.words[kind]), 1)
        return " ".join(text.split())


def _noisy(text: str, kind: str, draw: random.Random) -> str:
    if kind == "quote":
        return text
    text = text.lower() if draw.random() < 0.5 else text[:1].upper() + text[1:]
    if draw.random() < 0.3:
        text += draw.choice((".", "!", "..", "."))
    if draw.random() < 0.15:
        text = text.replace("'", "")
    if draw.random() < 0.12 and len(text) > 8:
        at = draw.randrange(1, len(text) - 2)
        text = (
            text[:at] + draw.choice((text[at + 1] + text[at], text[at], text[at] * 2 + text[at + 1])) + text[at + 2 :]
        )
    return folded(text) if draw.random() < 0.1 else text


def phrases() -> list[Text]:
    draw = random.Random(5)
    return [
        language.made(kind, tree, draw)
        for file in sorted(PHRASES.glob("*.txt"))
        for language in [Phrases(file)]
        for kind, tree in language.rules
        for _ in range(EACH)
    ]


# The texts of people


_RANK = ("request", "correction", "quote", "question", "constraint", "report", "chatter")


def label(burst: people.Burst, number: int) -> str:
    """The class of a message, by its expected effect. Empty for a command that was taken back later."""
    steering = [one.name for one in burst.commands if one.message == number]
    if any(message == number for message, _ in burst.tasks.values()):
        return "request"
    if steering:
        return steering[0]
    return next((act for act in _RANK if act in burst.acts[number - 1]), "")


def own_set() -> list[list[Text]]:
    """The labelled half of the project's own set that may be learned from, as bursts."""
    found: list[list[Text]] = []
    for said in reading.commands("dev"):
        name = "before" if said.name == "after" else said.name or "request"
        found.append([Text(said.text, tuple(one for one in said.targets if one), name)])
    found += [[Text(text, (), "request")] for _, text in reading.deliverables("dev")]
    for pair in reading.pairs("dev"):
        found.append([Text(pair.first, (), "request"), Text(pair.second, (), "request")])
    for burst in reading.bursts("dev"):
        asking = {number for number, _ in burst.tasks.values()} | {number for _, number in burst.same}
        found.append([Text(text, (), "request" if n in asking else "") for n, text in enumerate(burst.messages, 1)])
    return found


# The models


def counted(texts: list[Text]) -> csr_matrix:
    """A row of unit length for each text."""
    rows = []
    for one in texts:
        words = tokens(one.text)
        rows.append(sorted({bucket(each) for each in patterns(words, one.text, Titles(one.open).around(words))}))
    starts = np.cumsum([0, *map(len, rows)])
    values = np.concatenate([np.full(len(row), len(row) ** -0.5) for row in rows])
    return csr_matrix((values, np.concatenate(rows), starts), shape=(len(rows), BUCKETS))


class First(NamedTuple):
    weights: Any
    bias: Any

    def shares(self, table: csr_matrix) -> Any:
        odds = 1 / (1 + np.exp(-np.clip(table @ self.weights.T + self.bias, -30, 30)))
        return np.log(np.maximum(1e-4, odds / odds.sum(1, keepdims=True)))


def first_model(table: csr_matrix, labels: list[str], weight: Any) -> First:
    numbers = np.array([CLASSES.index(one) for one in labels])
    fitted = SGDClassifier(loss="log_loss", alpha=3e-6, max_iter=8, tol=None, average=True, random_state=0)
    fitted.fit(table, numbers, sample_weight=weight)
    scale = np.abs(fitted.coef_).max(1) / 127
    return First(np.round(fitted.coef_ / scale[:, None]) * scale[:, None], fitted.intercept_)


def second_features(bursts: list[list[Text]], readings: Any) -> Any:
    rows, at = [], 0
    for burst in bursts:
        titles, own = Titles(burst[0].open), [list(map(float, row)) for row in readings[at : at + len(burst)]]
        rows += [features(one.text, titles, own, place) for place, one in enumerate(burst)]
        at += len(burst)
    return np.array(rows)


def group(name: str) -> int:
    return GROUPS.index("steering" if name in STEERING else "request" if name == "request" else "other")


class Extra(NamedTuple):
    """Phrases for the second model, a few of each."""

    rows: Any
    labels: list[str]


def second_model(rows: Any, labels: list[str], weight: Any, extra: Extra) -> tuple[StandardScaler, LogisticRegression]:
    scaler = StandardScaler().fit(rows)
    model = LogisticRegression(C=0.02, max_iter=200)
    every = scaler.transform(np.concatenate([rows, extra.rows]))
    weights = np.concatenate([weight, np.full(len(extra.labels), MADE)])
    return scaler, model.fit(every, [group(one) for one in (*labels, *extra.labels)], sample_weight=weights)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only measure, on writers left out")
    check = parser.parse_args().check
    said = people.bursts("train")
    bursts = [
        [Text(text, burst.open, label(burst, n)) for n, text in enumerate(burst.messages, 1)] for burst in said
    ] + own_set()
    writers = np.array(
        [burst.writer for burst in said for _ in burst.messages] + ["own"] * sum(map(len, bursts[len(said) :]))
    )
    texts = [one for burst in bursts for one in burst]
    labels = [one.label for one in texts]
    useful = np.array([bool(one) for one in labels])
    made = phrases()
    table, more = counted(texts), counted(made)

    spare = np.arange(len(made)) // EACH % HALVES  # phrases of one half are read by a model that saw the other half

    def fitted(chosen_rows: Any, half: int | None = None) -> First:
        used, phrased = np.flatnonzero(chosen_rows & useful), np.flatnonzero(spare != half)
        weight = np.concatenate([np.full(len(used), REAL), np.ones(len(phrased))])
        names = [labels[number] for number in used] + [made[number].label for number in phrased]
        return first_model(vstack([table[used], more[phrased]]).tocsr(), names, weight)

    readings = np.zeros((len(texts), len(CLASSES)))
    for writer in sorted(set(writers)):  # the second model learns from how the first reads writers it has not seen
        readings[writers == writer] = fitted(writers != writer).shares(table[writers == writer])
    rows = second_features(bursts, readings)
    weight = np.where(writers == "own", 0.5, 1.0)
    taken = np.flatnonzero(np.arange(len(made)) % EACH < SECOND)
    seen = np.zeros((len(made), len(CLASSES)))
    for half in range(HALVES):
        seen[spare == half] = fitted(np.full(len(texts), fill_value=True), half).shares(more[spare == half])
    extra = Extra(second_features([[made[number]] for number in taken], seen[taken]), [made[n].label for n in taken])
    if check:
        _print_check(rows, labels, writers, readings, useful, weight, extra)
        return
    first = fitted(np.full(len(texts), fill_value=True))
    scaler, second = second_model(rows[useful], [one for one in labels if one], weight[useful], extra)
    scale = np.abs(first.weights).max(1) / 127
    header = {
        "scales": scale.round(8).tolist(),
        "bias": first.bias.round(5).tolist(),
        "mean": scaler.mean_.round(5).tolist(),
        "spread": scaler.scale_.round(5).tolist(),
        "second": second.coef_.round(5).tolist(),
        "intercept": second.intercept_.round(5).tolist(),
    }
    signed = np.round(first.weights / scale[:, None]).astype(np.int8).T
    with open(FILE, "wb") as file:
        file.write(json.dumps(header).encode() + b"\n" + np.ascontiguousarray(signed).tobytes())


def _print_check(
    rows: Any, labels: list[str], writers: Any, readings: Any, useful: Any, weight: Any, extra: Extra
) -> None:
    right = np.array([group(one) if one else -1 for one in labels])
    odds = np.zeros((len(labels), 3))
    for writer in sorted(set(writers)):
        used = (writers != writer) & useful
        scaler, model = second_model(rows[used], [labels[n] for n in np.flatnonzero(used)], weight[used], extra)
        odds[writers == writer] = model.predict_proba(scaler.transform(rows[writers == writer]))
    found = odds.argmax(1)
    for name, among in (("people", writers != "own"), ("own", writers == "own")):
        there = useful & among
        print(name, "right:", round(float((found == right)[there].mean()), 3))
        for number, title in enumerate(GROUPS):
            hit = int(((found == number) & (right == number) & there).sum())
            precision = hit / max(1, int(((found == number) & there).sum()))
            recall = hit / max(1, int(((right == number) & there).sum()))
            print(f"  {title:<9} precision {precision:.3f}  recall {recall:.3f}")
    steering = readings[:, -len(STEERING) :].argmax(1)
    both = useful & (found == 1) & (right == 1)
    names = [STEERING[number] == labels[at] for at, number in enumerate(steering) if both[at]]
    print("  which command:", round(sum(names) / len(names), 3))


if __name__ == "__main__":
    main()
