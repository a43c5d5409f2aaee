"""What lies in the vault that dibs cannot use, or that does not fit together. Nothing here stops the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.graph import Graph, find_cycle
from dibs.stores.reports import Finding
from dibs.stores.vault.links import write_links
from dibs.stores.vault.writing import rewrite

if TYPE_CHECKING:
    from dibs.stores.vault.index import Entry
    from dibs.stores.vault.turns import Alone, Turn


def check(tx: Turn) -> list[Finding]:
    """Every question about every file."""
    tx.index.read_all()
    found = [Finding(problem, path, fixable=False) for path, problem in sorted(tx.index.problems.items())]
    for key in tx.index.keys_in():
        entry = tx.index.entry(key)
        found += _of_one(tx, entry) if entry is not None else []
    for scope in sorted({scope for scope, _ in tx.index.keys_in()}):
        found += _cycles(tx, scope)
    for name, lines in tx.vault.log.unreadable():
        found.append(Finding(f"holds {lines} line(s) that are no events", f"Logs/{name}", fixable=False))
    return found


def repair(tx: Alone) -> list[Finding]:
    """Take out links and parents that lead nowhere."""
    findings = check(tx)
    for finding in findings:
        if finding.fixable:
            scope, _, task_id = finding.subject.rpartition("/")
            _drop_loose_ends(tx, scope, task_id)
    return [finding._replace(fixed=finding.fixable) for finding in findings]


def _of_one(tx: Turn, entry: Entry) -> list[Finding]:
    path, key = entry.path, entry.place.key
    if entry.problem is not None:
        return [Finding(entry.problem, path, fixable=False)]
    known = entry.reading
    if known is None:
        return []
    found = [Finding(f"{doubt}; it was passed over", path, fixable=False) for doubt in known.doubts]
    twins = tx.index.twins(key)
    if twins:
        found.append(Finding(f"the same name lies in {' and in '.join(twins)}", "/".join(key), fixable=False))
    ends = [(link.on, "waits for") for link in known.links]
    if known.task.parent is not None:
        ends.append((known.task.parent, "has the parent"))
    found += [
        Finding(f"{how} {on}, which is not there", "/".join(key), fixable=True)
        for on, how in ends
        if tx.index.place_of((key[0], on)) is None
    ]
    return found


def _cycles(tx: Turn, scope: str) -> list[Finding]:
    tasks = tuple(tx.index.tasks(scope))
    entries = (tx.index.entry((scope, task.id)) for task in tasks)
    links = tuple(link for entry in entries if entry and entry.reading for link in entry.reading.links)
    cycle = find_cycle(Graph(tasks, links).prerequisites())
    return [Finding(f"tasks wait for each other: {' → '.join(cycle)}", scope, fixable=False)] if cycle else []


def _drop_loose_ends(tx: Alone, scope: str, task_id: str) -> None:
    entry = tx.entry(scope, task_id)
    known = entry.reading
    if known is None:
        return
    kept = tuple(link for link in known.links if tx.index.place_of((scope, link.on)) is not None)
    write_links(tx, scope, task_id, kept)
    parent = known.task.parent
    if parent is not None and tx.index.place_of((scope, parent)) is None:
        tx.settled(lambda: rewrite(tx, tx.entry(scope, task_id), tx.task(scope, task_id)._replace(parent=None)))
