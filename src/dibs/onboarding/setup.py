"""`dibs setup`: show, write and undo the changes for a product.

`.dibs/setup.json` remembers the product and the places in JSON files, so that undo restores the earlier text.
"""

import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from dibs.core.errors import DibsError, InvalidInput
from dibs.onboarding import block, json_text
from dibs.onboarding.json_text import Insertions, parse
from dibs.onboarding.products import PRODUCTS, Entry, File

RECORD = os.path.join(".dibs", "setup.json")

_STYLES = {"markdown": block.MARKDOWN, "toml": block.TOML}


class Project(NamedTuple):
    """Where the files belong, and whether the store is the project's own."""

    folder: str
    own_store: bool


class UndoRecord(NamedTuple):
    """For which products something was put into a file, and what that was if it was JSON."""

    by: tuple[str, ...] = ()
    inserted: Insertions | None = None


class Change(NamedTuple):
    """A file's new text (None: delete it), and the data for undo."""

    name: str
    before: str | None
    after: str | None
    remembered: UndoRecord


class Plan(NamedTuple):
    changes: tuple[Change, ...]
    remarks: tuple[str, ...]

    @property
    def writes(self) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if change.before != change.after)


def planned(product: str, project: Project, *, force: bool = False) -> Plan:
    """What setting the product up would change."""
    memory = _memory(project)
    changes, remarks = [], []
    for file in _files(product, project):
        remembered = memory.get(file.name, UndoRecord())
        before = block.read(_path(project, file))
        after, inserted = _with_ours(file, before, remembered, force=force)
        remarks += _remarks(file, after)
        ours = product in remembered.by or after != before or bool(remembered.by)
        by = (*(each for each in remembered.by if each != product), product) if ours else ()
        changes.append(Change(file.name, before, after, UndoRecord(by, inserted or remembered.inserted)))
    return Plan(tuple(changes), tuple(remarks))


def undoing(product: str, project: Project, *, force: bool = False) -> Plan:
    """What taking it back would change. A file that others were set up with too keeps what they read."""
    memory = _memory(project)
    changes, remarks = [], []
    for file in _files(product, project):
        remembered = memory.get(file.name, UndoRecord())
        before = block.read(_path(project, file))
        others = tuple(each for each in remembered.by if each != product)
        shared = file.kind == "markdown" and product != "agents" and (others or product not in remembered.by)
        if before is None or shared:
            remarks += [f"{file.name} stays, because other agents read it too."] if shared and before else []
            changes.append(Change(file.name, before, before, remembered._replace(by=others)))
            continue
        after = _without_ours(file, before, remembered, force=force)
        changes.append(Change(file.name, before, after, UndoRecord()))
    return Plan(tuple(changes), tuple(remarks))


def states(product: str, project: Project) -> Iterator[tuple[str, str]]:
    """Each file's name with its problem, or without one."""
    for file in _files(product, project):
        try:
            before = block.read(_path(project, file))
            after, _ = _with_ours(file, before, UndoRecord(), force=False)
            wrong = "" if after == before else "there is no such file" if before is None else "it lacks what dibs adds"
            yield file.name, wrong or "; ".join(_remarks(file, after))
        except DibsError as error:
            yield file.name, error.message.rstrip(".")


def carry_out(plan: Plan, project: Project) -> None:
    """Write all files, or none: after an error, restore the written ones."""
    written: list[Change] = []
    memory = _memory(project)
    try:
        for change in plan.writes:
            block.write(block.of_project(project.folder, change.name), change.after)
            written.append(change)
        memory.update({change.name: change.remembered for change in plan.changes})
        _remember(project, memory)
    except DibsError:
        for change in reversed(written):
            block.write(os.path.join(project.folder, change.name), change.before)
        raise
    for change in plan.writes:
        if change.after is None:
            _tidy(project, os.path.dirname(change.name))


def _files(product: str, project: Project) -> Iterator[File]:
    for file in PRODUCTS[product].files:
        suited = tuple(_suited(entry, own_store=project.own_store) for entry in file.entries)
        yield file._replace(entries=suited)


def _suited(entry: Entry, *, own_store: bool) -> Entry:
    return entry if own_store or entry.elsewhere is None else entry._replace(value=entry.elsewhere)


def _path(project: Project, file: File) -> str:
    return block.of_project(project.folder, file.name)


def _tidy(project: Project, folder: str) -> None:
    """A folder that was made for a file of ours goes with it, unless there is something else in it."""
    with suppress(OSError):
        if folder:
            os.rmdir(os.path.join(project.folder, folder))


# Text with our part, and without


def _with_ours(file: File, before: str | None, past: UndoRecord, *, force: bool) -> tuple[str, Insertions | None]:
    if file.kind == "json":
        base = _as_before(before, past)
        after, inserted = json_text.insert(base, file.name, file.entries)
        return (after, inserted) if inserted.pieces else (before or "", None)
    try:
        after = block.with_block(before, file.body, _STYLES[file.kind], force=force)
    except block.Unfit as unfit:
        raise InvalidInput(f"{file.name} was left alone: {unfit}.") from None
    if file.kind == "toml":
        _check_toml(file, before or "", after)
    return after, None


def _as_before(text: str | None, past: UndoRecord) -> str | None:
    """Remove the text of an earlier version first, so that the current one replaces it."""
    if text is None or past.inserted is None or past.inserted.sha256 != json_text.hash_of(text):
        return text
    return json_text.undo(text, past.inserted)


def _without_ours(file: File, text: str, past: UndoRecord, *, force: bool) -> str | None:
    if file.kind == "json":
        if past.inserted is not None and past.inserted.sha256 == json_text.hash_of(text):
            return json_text.undo(text, past.inserted)
        return json_text.remove(text, file.name, file.entries, past.inserted)
    try:
        return block.without_block(text, _STYLES[file.kind], force=force)
    except block.Unfit as unfit:
        raise InvalidInput(f"{file.name} was left alone: {unfit}.") from None


def _check_toml(file: File, before: str, after: str) -> None:
    try:
        tomllib.loads(before)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{file.name} is broken TOML: {error}. Nothing was changed.") from None
    try:
        tomllib.loads(after)
    except tomllib.TOMLDecodeError as error:
        why = f"its content conflicts with [mcp_servers.dibs] ({error})"
        raise InvalidInput(f"{file.name} was left alone: {why}.") from None


def _remarks(file: File, text: str) -> list[str]:
    if file.kind != "json":
        return []
    root = parse(text, file.name)
    others = [".".join(entry.path) for entry in file.entries if json_text.foreign(entry, root)]
    return [f"{file.name} already has a different {name}, which was not changed" for name in others]


# What is remembered


def _memory(project: Project) -> dict[str, UndoRecord]:
    text = block.read(os.path.join(project.folder, RECORD))
    if text is None:
        return {}
    try:
        return {name: _remembered(told) for name, told in json.loads(text)["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInput(f"{RECORD} cannot be read ({error}); remove it, and run setup again.") from None


def _remembered(told: Mapping[str, Any]) -> UndoRecord:
    past = told.get("inserted")
    if past is None:
        return UndoRecord(tuple(told["by"]))
    pieces = tuple((int(at), str(piece)) for at, piece in past["pieces"])
    return UndoRecord(tuple(told["by"]), Insertions(past["made"], past["sha256"], pieces, tuple(past["depths"])))


def _remember(project: Project, memory: Mapping[str, UndoRecord]) -> None:
    kept = {
        name: {"by": told.by, "inserted": None if told.inserted is None else told.inserted._asdict()}
        for name, told in sorted(memory.items())
        if told.by
    }
    path = os.path.join(project.folder, RECORD)
    text = json.dumps({"files": kept}, indent=1) + "\n" if kept else None
    if text is not None or os.path.exists(path):
        block.write(path, text)
