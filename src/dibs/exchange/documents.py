"""Tables and texts: CSV of any tool, Linear's CSV, Markdown checklists, and the files of Backlog.md."""

from __future__ import annotations

import csv
import io
import json
import re
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from dibs.core import checks
from dibs.core.errors import InvalidInput, PlanInvalid
from dibs.core.task import Status
from dibs.core.yaml_reading import read_yaml
from dibs.exchange.items import Comment, Entry, Item, Notes, Reading, placed, plain_word

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from dibs.core.task import Json

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def _made_key(*words: str) -> str:
    """An id made from the text, so that a second import finds the first."""
    digest = blake2b("\n".join(words).encode(errors="surrogatepass"), digest_size=5).digest()
    number = int.from_bytes(digest)
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(0, 40, 5))


# CSV

_COLUMNS = {
    "id": "id key identifier number issueid issuekey taskid",
    "title": "title name summary subject task issue todo",
    "description": "description body notes details text content",
    "status": "status state stage column",
    "reason": "reason",
    "priority": "priority prio urgency",
    "category": "category type kind issuetype worktype",
    "labels": "labels label tags tag components",
    "deliverable": "deliverable",
    "steps": "steps checklist",
    "spec": "spec specref project milestone epicname",
    "ref": "ref url link reference externalref",
    "assigned_to": "assignedto",
    "assignee": "assignee owner assignees responsible",
    "parent": "parent parentid parentissue epic epiclink parenttask",
    "blocked_by": "blockedby dependson dependencies deps needs prerequisites waitsfor predecessors",
    "feeds_from": "feedsfrom",
    "not_before": "notbefore start startdate startson deferuntil",
    "created_at": "createdat created createddate creationdate datecreated",
    "updated_at": "updatedat updated updateddate lastmodified",
    "started_at": "startedat started",
    "finished_at": "finishedat closedat completedat completed closed resolved done datedone completiondate",
    "finished_by": "finishedby closedby",
    "result": "result",
    "acceptance": "acceptancecriteria acceptance",
    "comments": "comments comment",
}
_COLUMN_OF = {word: name for name, words in _COLUMNS.items() for word in words.split()}

_LINEAR = {
    "canceled": "canceled",
    "duedate": "due",
    "cyclename": "cycle",
    "relatedto": "related",
    "estimate": "estimate",
    "creator": "author",
    "team": "team",
}


class _Row(NamedTuple):
    line: int
    cells: Mapping[str, str]  # by our name of the column, or else by its own
    own: frozenset[str]  # the columns that only they have


def read_csv(text: str, notes: Notes) -> Reading:
    """A table with a header; names and order of the columns may differ."""
    return _table(text, notes, _COLUMN_OF)


def read_linear(text: str, notes: Notes) -> Reading:
    """The CSV that Linear exports a workspace or a team to."""
    return _table(text, notes, {**_COLUMN_OF, **_LINEAR})


def _table(text: str, notes: Notes, columns: Mapping[str, str]) -> Reading:
    items: list[Item] = []
    seen: dict[str, int] = {}
    for row in _rows(text, columns):
        place = f"line {row.line}"
        entry = Entry(notes, place, row.cells)
        title = row.cells.get("title", "")
        again = seen[title] = seen.get(title, 0) + 1
        entry.key = row.cells.get("id", "") or _made_key(title, str(again))
        with placed(place):
            items.append(_row_item(entry, row.own))
    return Reading(tuple(items), tuple(notes.lost))


def _rows(text: str, columns: Mapping[str, str]) -> Iterator[_Row]:
    csv.field_size_limit(checks.TEXT_MAX + 1)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text), strict=True)
    line = 1
    header: list[str] = []
    try:
        for cells in reader:
            start, line = line, reader.line_num + 1
            if not any(cell.strip() for cell in cells):
                continue
            if not header:
                header = _header(cells, columns, start)
                continue
            if len(cells) > len(header):
                raise InvalidInput(f"line {start}: {len(cells)} cells, but the header has {len(header)}.")
            values = {name: _cell(cell) for name, cell in zip(header, cells, strict=False)}
            yield _Row(start, values, frozenset(header) - _COLUMNS.keys())
    except csv.Error as error:
        raise InvalidInput(f"line {line}: this is not CSV ({error}).") from None
    if not header:
        raise InvalidInput("line 1: a header is expected, with at least a title.")


def _delimiter(text: str) -> str:
    first = text.lstrip("\ufeff\r\n").partition("\n")[0]
    return max(",;\t|", key=first.count)


def _header(cells: Sequence[str], columns: Mapping[str, str], line: int) -> list[str]:
    names: list[str] = []
    for cell in cells:
        called = re.sub(r"\W|_", "", cell.casefold())
        name = columns.get(called, cell.strip())
        names.append(cell.strip() if name in names else name)
    if "title" not in names:
        raise InvalidInput(f"line {line}: the table has no column for the title; call one of them 'title'.")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInput(f"line {line}: two columns are called '{twice[:40]}'.")
    return names


def _cell(value: str) -> str:
    """A spreadsheet keeps what looks like a formula apart with an apostrophe; so does our export."""
    return value[1:] if value[:1] == "'" and value.lstrip("'").startswith(_FORMULA) else value


_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def _split(said: str) -> list[str]:
    return [part.strip() for part in re.split(r"[,;|\n]", said) if part.strip()]


def _row_item(entry: Entry, own: Iterable[str]) -> Item:
    cell = entry.text
    title, over = entry.title(cell("title"))
    said = cell("status")
    canceled = entry.moment("canceled")
    finished = entry.moment("finished_at") or canceled
    status = entry.status(said)
    if canceled is not None and plain_word(said) not in {"done", "completed"}:
        status = Status.CANCELED
    description = over + cell("description").strip()
    if cell("acceptance"):
        description += f"\n\n## Acceptance criteria\n\n{cell('acceptance').strip()}"
    assigned = cell("assigned_to")
    extra: dict[str, Json] = {name: cell(name) for name in own if cell(name) and name != "canceled"}
    return Item(
        entry.key,
        title,
        entry.place,
        status,
        reason=cell("reason") or None,
        description=description.strip(),
        priority=entry.priority(cell("priority")),
        category=entry.name("category", cell("category")),
        labels=entry.names("label", _split(cell("labels"))),
        deliverable=entry.name("deliverable", cell("deliverable")),
        steps=tuple(line.strip() for line in cell("steps").split("\n") if line.strip()),
        spec_ref=entry.name("spec", cell("spec")),
        ref=cell("ref") or None,
        parent=cell("parent").strip() or None,
        needs=tuple(dict.fromkeys(_split(cell("blocked_by")))),
        feeds=tuple(dict.fromkeys(_split(cell("feeds_from")))),
        assignee=entry.name("assignee", assigned or cell("assignee")),
        assigned=bool(assigned),
        not_before=entry.moment("not_before"),
        created_at=entry.moment("created_at"),
        updated_at=entry.moment("updated_at"),
        started_at=entry.moment("started_at"),
        finished_at=finished,
        finished_by=entry.name("finished_by", cell("finished_by")),
        result=_result(cell("result")),
        comments=(Comment(cell("comments")),) if cell("comments") else (),
        extra=extra,
    )


def _result(said: str) -> Json:
    """A result may be any JSON; other text is kept as text."""
    if not said:
        return None
    try:
        value: Json = json.loads(said)
    except (ValueError, RecursionError):
        return said
    return value


# Markdown

_BOX = re.compile(r"(\s*)(?:[-*+]|\d+[.)])\s+\[(.)\](?:\s+(.*))?")
_BULLET = re.compile(r"(\s*)(?:[-*+]|\d+[.)])\s+(?!\[.\]\s)(.*)")
_HEADING = re.compile(r"#{1,6}\s+(.*?)\s*#*")
_FENCE = re.compile(r"\s*(```|~~~)")
_TAG = re.compile(r"(?<!\S)#([^\W\d][\w/-]*)\s*$")
_OURS = re.compile(r"\s*<!-- dibs (\{[^>]*\}) -->\s*$")
_BOXES = {
    " ": Status.READY, "x": Status.DONE, "X": Status.DONE, "-": Status.CANCELED, ">": Status.PAUSED,
    "/": Status.ACTIVE, "!": Status.BLOCKED, "?": Status.REVIEW, "~": Status.BACKLOG,
}  # fmt: skip


class _Bullet:
    """An entry of a list while its lines are being read."""

    def __init__(self, line: int, indent: int, box: str, text: str, heading: str, whole: _Bullet | None) -> None:
        self.line = line
        self.indent = indent
        self.box = box
        self.heading = heading
        self.whole = whole
        self.body: list[str] = []
        self.fields: Mapping[str, Json] = {}
        found = _OURS.search(text)
        if found:
            self.fields = _fields(found.group(1), line)
            text = text[: found.start()]
        self.labels: list[str] = []
        while not found and (tag := _TAG.search(text)):
            self.labels.append(tag.group(1))
            text = text[: tag.start()].rstrip()
        self.title = text.strip()

    def trail(self) -> tuple[str, ...]:
        return (*(self.whole.trail() if self.whole else (self.heading,)), self.title)


def _fields(said: str, line: int) -> Mapping[str, Json]:
    try:
        value = json.loads(said)
    except (ValueError, RecursionError):
        raise InvalidInput(f"line {line}: the comment that dibs left here is no longer valid JSON.") from None
    if not isinstance(value, dict):
        raise InvalidInput(f"line {line}: the comment that dibs left here is no object.")
    return value


def read_markdown(text: str, notes: Notes) -> Reading:
    """Checklists: `- [ ] Title`, nested for parts, under headings. Without any box, each bullet is a task."""
    lines = text.split("\n")
    pattern = _BOX if any(_BOX.fullmatch(line) for line in lines) else _BULLET
    bullets, loose = _bullets(lines, pattern)
    items: list[Item] = []
    keys: dict[int, str] = {}
    seen: dict[tuple[str, ...], int] = {}
    for bullet in bullets:
        again = seen[bullet.trail()] = seen.get(bullet.trail(), 0) + 1
        own = bullet.fields.get("id")
        keys[id(bullet)] = own if isinstance(own, str) and own else _made_key(*bullet.trail(), str(again))
        place = f"line {bullet.line}"
        entry = Entry(notes, place, bullet.fields, keys[id(bullet)])
        parent = keys[id(bullet.whole)] if bullet.whole else None
        with placed(place):
            items.append(_bullet_item(entry, bullet, parent))
    if loose:
        entry = Entry(notes, f"line {loose[0]}", {})
        entry.lose(f"{len(loose)} lines of text belong to no task")
    return Reading(tuple(items), tuple(notes.lost))


def _bullets(lines: Sequence[str], pattern: re.Pattern[str]) -> tuple[list[_Bullet], list[int]]:
    """The entries of all lists, and the lines that are part of none."""
    found: list[_Bullet] = []
    open_: list[_Bullet] = []  # the last entry and those around it
    loose: list[int] = []
    heading = ""
    fence = ""
    for number, raw in enumerate(lines, start=1):
        kept = raw.rstrip("\r")
        line = kept.expandtabs(4)
        depth = len(line) - len(line.lstrip())
        if fence and line.strip() and open_ and depth <= open_[-1].indent:
            fence = ""  # a fence ends with its entry
        mark = _FENCE.match(line)
        if mark:
            fence = "" if fence == mark.group(1) else fence or mark.group(1)
        entry = pattern.fullmatch(line) if not (fence or mark) or _OURS.search(line) else None
        if entry and not _quoted(open_, len(entry.group(1)), line):
            indent = len(entry.group(1))
            while open_ and open_[-1].indent >= indent:
                open_.pop()
            box, text = (entry.group(2), entry.group(3) or "") if pattern is _BOX else (" ", entry.group(2))
            bullet = _Bullet(number, indent, box, text, heading, open_[-1] if open_ else None)
            found.append(bullet)
            open_.append(bullet)
        elif open_ and (not line.strip() or depth > open_[0].indent):
            _inner(open_, line).body.append(kept)
        elif not fence and not mark and (title := _HEADING.fullmatch(line)):
            heading, open_ = title.group(1), []
        elif line.strip():
            open_ = []
            loose.append(number)
    return found, loose


def _quoted(open_: Sequence[_Bullet], indent: int, line: str) -> bool:
    """A box in the description of a task that dibs wrote here: only its own entries have a hidden comment."""
    around = next((bullet for bullet in reversed(open_) if bullet.indent < indent), None)
    return around is not None and bool(around.fields) and not _OURS.search(line)


def _inner(open_: Sequence[_Bullet], line: str) -> _Bullet:
    """The entry that a line below it belongs to: the innermost that it is indented under."""
    indent = len(line) - len(line.lstrip())
    if not line.strip():
        return open_[-1]
    return next((bullet for bullet in reversed(open_) if bullet.indent < indent), open_[0])


def _bullet_item(entry: Entry, bullet: _Bullet, parent: str | None) -> Item:
    title, over = entry.title(bullet.title)
    own = bullet.fields
    body, comments = _body(bullet, entry)
    said = entry.text("status")
    box = _BOXES.get(bullet.box)
    if box is None:
        entry.lose(f"the box [{bullet.box}] is unknown, so the task is in the backlog")
    agrees = said and box in {Status.DONE, Status.CANCELED, Status.READY}
    finished = {"done", "canceled"}
    boxed = "backlog" if box is None else box.value
    status = entry.status(said if agrees and (said in finished) == (boxed in finished) else boxed)
    labels = entry.names("label", [*bullet.labels, *entry.ids("labels")])
    assigned = entry.text("assigned_to")
    return Item(
        entry.key,
        title,
        entry.place,
        status,
        reason=entry.text("reason") or None,
        description=over + body,
        priority=entry.priority(own.get("priority")),
        category=entry.name("category", entry.text("category") if own else bullet.heading),
        labels=labels,
        spec_ref=entry.name("spec", entry.text("spec")),
        ref=entry.text("ref") or None,
        parent=entry.text("parent") or parent,
        needs=entry.ids("blocked_by"),
        feeds=entry.ids("feeds_from"),
        assignee=entry.name("assignee", assigned),
        assigned=bool(assigned),
        created_at=entry.moment("created_at"),
        finished_at=entry.moment("finished_at"),
        comments=comments,
    )


_SAID = re.compile(r"\s*> .*?: (.*) <!-- comment (\{.*\}) -->")


def _body(bullet: _Bullet, entry: Entry) -> tuple[str, tuple[Comment, ...]]:
    """The lines below an entry, without indentation, and the comments that our own export wrote there."""
    lines, comments = [], []
    for line in bullet.body:
        said = _SAID.fullmatch(line) if bullet.fields else None
        if said:
            one = Entry(Notes(""), entry.place, _fields(said.group(2), bullet.line))
            comments.append(Comment(said.group(1), one.text("by") or None, one.moment("at")))
        else:
            lines.append(line)
    indents = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    depth = bullet.indent + 4 if bullet.fields else min(indents, default=0)
    return "\n".join(line[depth:] for line in lines).strip("\n"), tuple(comments)


# Backlog.md


class File(NamedTuple):
    """One of several files that are read together: its path below the folder, with '/'."""

    path: str
    text: str


_MARKS = re.compile(r"^<!-- (?:SECTION:[A-Z_]+|AC|DOD|COMMENTS):(?:BEGIN|END) -->\n?", re.MULTILINE)
_COMMENTS = re.compile(
    r"(?:^## Comments\s+)?<!-- COMMENTS:BEGIN -->\n(.*?)<!-- COMMENTS:END -->\n?", re.DOTALL | re.MULTILINE
)
_SUMMARY = re.compile(r"<!-- SECTION:FINAL_SUMMARY:BEGIN -->\n(.*?)\n<!-- SECTION:FINAL_SUMMARY:END -->", re.DOTALL)
_REMARK = re.compile(r"((?:[a-z]+: .*\n)+)---\n(.*?)\n---(?:\n|$)", re.DOTALL)


def read_backlog(files: Sequence[File], notes: Notes) -> Reading:
    """The files of a `backlog` folder: tasks, completed ones, drafts, and archived ones as canceled."""
    items = []
    for file in files:
        with placed(file.path):
            items.append(_backlog_task(file, notes))
    return Reading(tuple(items), tuple(notes.lost))


def _backlog_task(file: File, notes: Notes) -> Item:
    head, body = _front_matter(file)
    entry = Entry(notes, f"{file.path}, line 1", head)
    entry.key = entry.text("id").strip()
    if not entry.key:
        raise InvalidInput(f"{entry.place}: the front matter has no 'id'.")
    title, over = entry.title(entry.text("title"))
    status = entry.status(entry.text("status"))
    if file.path.startswith("drafts/") or "/drafts/" in file.path:
        status = Status.BACKLOG
    elif "archive/" in file.path:
        status = Status.CANCELED
    people = entry.names("assignee", (name.lstrip("@") for name in _several(entry, "assignee")))
    if len(people) > 1:
        entry.lose(f"of its {len(people)} assignees only {people[0]} is kept")
    summary = _SUMMARY.search(body)
    body, comments = _remarks(body, entry)
    return Item(
        entry.key,
        title,
        entry.place,
        status,
        description=over + re.sub(r"\n{3,}", "\n\n", _MARKS.sub("", body)).strip(),
        priority=entry.priority(entry.text("priority")),
        category=entry.name("category", entry.text("type")),
        labels=entry.names("label", _several(entry, "labels")),
        spec_ref=entry.name("milestone", entry.text("milestone")),
        ref=next(iter(_several(entry, "references")), None),
        parent=entry.text("parent_task_id") or None,
        needs=tuple(_several(entry, "dependencies")),
        assignee=people[0] if people else None,
        created_at=entry.moment("created_date"),
        updated_at=entry.moment("updated_date"),
        finished_at=entry.moment("updated_date") if status is Status.DONE else None,
        result=summary.group(1).strip() if summary and status is Status.DONE else None,
        comments=comments,
    )


def _front_matter(file: File) -> tuple[Mapping[str, Json], str]:
    text = file.text.replace("\r\n", "\n")
    if not text.startswith("---\n"):
        raise InvalidInput(f"{file.path}, line 1: a task begins with front matter between lines of '---'.")
    head, found, body = text[4:].partition("\n---\n")
    if not found:
        raise InvalidInput(f"{file.path}, line 1: the front matter has no end.")
    try:
        node = read_yaml("\n" + head)
    except PlanInvalid as error:  # with the line in its message
        raise InvalidInput(f"{file.path}, {error.message}") from None
    value = node.as_written() if node is not None else {}
    if not isinstance(value, dict):
        raise InvalidInput(f"{file.path}, line 2: the front matter is no mapping.")
    return value, body


def _several(entry: Entry, name: str) -> tuple[str, ...]:
    """A list, or a single name."""
    value = entry.data.get(name)
    return (value,) if isinstance(value, str) and value else entry.ids(name)


def _remarks(body: str, entry: Entry) -> tuple[str, tuple[Comment, ...]]:
    found = _COMMENTS.search(body)
    if not found:
        return body, ()
    comments = []
    for head, text in _REMARK.findall(found.group(1)):
        said = dict(line.split(": ", 1) for line in head.splitlines())
        one = Entry(Notes(""), entry.place, said)
        comments.append(
            Comment(text.strip(), one.name("author", one.text("author").lstrip("@")), one.moment("created"))
        )
    return body[: found.start()] + body[found.end() :], tuple(comments)
