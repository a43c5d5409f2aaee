"""`make eval`: score the analyst on the labelled set. The held-out half is measured and never inspected."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from dibs.chat.analyst.analysis import Thresholds
from dibs.chat.analyst.embedders import open_embedder
from eval import measures, people, reading

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.chat.analyst.embedders import Embedder
    from eval.measures import Counts, Miss

_MERGE = (0.80, 0.85, 0.90, 0.95)
_RELATED = (0.45, 0.55, 0.65, 0.75)


def main() -> None:
    parser = argparse.ArgumentParser(prog="eval", description="Precision and recall of the analyst.")
    parser.add_argument("--embedder", default=os.environ.get("DIBS_EMBEDDER") or "builtin")
    parser.add_argument("--misses", action="store_true", help="show what goes wrong, in the half that may be looked at")
    parser.add_argument("--people", action="store_true", help="only the texts by independent writers")
    args = parser.parse_args()
    embedder = open_embedder(args.embedder, os.environ)
    print(f"embedder: {embedder.name}\n")
    _people(embedder, misses=args.misses)
    if args.people:
        return
    _sizes()
    for half in reading.HALVES:
        _half(half, embedder, _shown if args.misses and half == "dev" else _ignored)
    for half in reading.HALVES:
        _thresholds(half, embedder)


def _people(embedder: Embedder, *, misses: bool) -> None:
    for name in people.SETS:
        for line in people.report(name, embedder, _shown if misses and name == "train" else _ignored):
            print(line)
        print()


def _sizes() -> None:
    print(f"{'':<9}{'commands':>9}{'others':>8}{'kinds':>7}{'pairs':>7}{'bursts':>8}{'targets':>9}")
    for half in reading.HALVES:
        spoken = reading.commands(half)
        count = sum(1 for one in spoken if one.name)
        sizes = (len(reading.deliverables(half)), len(reading.pairs(half)), len(reading.bursts(half)))
        rest = f"{sizes[0]:>7}{sizes[1]:>7}{sizes[2]:>8}{len(reading.targets(half)):>9}"
        print(f"{half:<9}{count:>9}{len(spoken) - count:>8}{rest}")


def _ignored(_: Miss) -> None:
    pass


def _shown(miss: Miss) -> None:
    print(f"  ✗ {miss.what}\n      found  {miss.found}\n      wanted {miss.wanted}")


def _half(half: str, embedder: Embedder, note: Callable[[Miss], None]) -> None:
    print(f"\n{half:<44}{'precision':>10}{'recall':>8}{'F1':>7}   right/wrong/missed")
    _row("commands", measures.commands(half, note))
    one, unclear = measures.pointed(half, embedder, note)
    _row("targets of commands, where one is meant", one)
    _share("unclear or absent targets left open", unclear)
    _share("deliverable", measures.deliverables(half, note))
    pairs = measures.pairs(half, embedder, Thresholds(), note)
    _row("pairs: relations by wording, kind and direction", pairs.said)
    _row("pairs: … direction alone", pairs.order)
    _row("pairs: order guessed without wording", pairs.guessed)
    _row("pairs: duplicates", pairs.same)
    print(f"{'pairs: asked about, rightly and needlessly':<44}{pairs.asked.right:>10}{pairs.asked.wrong:>8}")
    bursts = measures.bursts(half, embedder, Thresholds(), note)
    _row("bursts: tasks in the right messages", bursts.tasks)
    _share("bursts: deliverable of the tasks", bursts.kinds)
    _row("bursts: links, kind and direction", bursts.links)
    _row("bursts: … direction alone", bursts.order)
    _row("bursts: duplicates", bursts.same)


def _row(name: str, counts: Counts) -> None:
    told = f"{counts.right}/{counts.wrong}/{counts.missed}"
    print(f"{name:<44}{counts.precision:>10.3f}{counts.recall:>8.3f}{counts.f1:>7.3f}   {told}")


def _share(name: str, counts: Counts) -> None:
    print(f"{name:<44}{'':>10}{counts.recall:>8.3f}{'':>7}   {counts.right} of {counts.right + counts.missed}")


def _thresholds(half: str, embedder: Embedder) -> None:
    """Scores with other thresholds."""
    print(f"\n{half}: duplicates, by the merge threshold")
    for merge in _MERGE:
        same = measures.pairs(half, embedder, Thresholds(merge=merge), _ignored).same
        print(f"  above {merge:.2f}   precision {same.precision:.3f}   recall {same.recall:.3f}")
    print(f"{half}: pairs on the same subject among those called alike, and found, by the threshold of parallel_ok")
    for medium in _RELATED:
        alike = measures.alike(half, embedder, Thresholds(medium=medium))
        print(f"  above {medium:.2f}   precision {alike.precision:.3f}   recall {alike.recall:.3f}")


if __name__ == "__main__":
    main()
