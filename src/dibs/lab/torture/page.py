"""A report as files: text, JSON, the history itself, and a page with the picture."""

from __future__ import annotations

import json
import os
from html import escape
from typing import TYPE_CHECKING

from dibs.core.errors import InvalidInput, StoreUnavailable
from dibs.lab.torture import history
from dibs.lab.torture.reports import data, history_lines, lines
from dibs.lab.torture.timeline import svg

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dibs.lab.torture.experiments import Report

_STYLE = """
:root { color-scheme: light dark; --ink: #1c1c1c; --paper: #fff; --soft: #8885; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --paper: #161616; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem; }
pre { overflow-x: auto; } svg { width: 100%; height: auto; } .key span { margin-right: 1.5em; }
.key i { display: inline-block; width: 1em; height: 1em; margin-right: .4em; vertical-align: -.1em; }
.tick { stroke: var(--soft); } .time { font-size: 11px; text-anchor: middle; fill: var(--ink); }
.seat { font-size: 12px; fill: var(--ink); }
.done { fill: #2e8b57; background: #2e8b57; } .back { fill: #4a78b5; background: #4a78b5; }
.lost { fill: #d08a1d; background: #d08a1d; } .bad { stroke: #e0f; stroke-width: 2; border: 2px solid #e0f; }
.fault { fill: #999; background: #999; opacity: .35; } .kill { fill: #d11; background: #d11; opacity: .9; }
.restart { fill: #7a3db8; background: #7a3db8; } .partition { fill: #c2417c; background: #c2417c; }
.disk { fill: #6b4f2a; background: #6b4f2a; } .slow { fill: #c9b400; background: #c9b400; }
"""
_KEY = (
    ("done", "held and done"),
    ("back", "held and given back, set aside or canceled"),
    ("lost", "held until the lease was over"),
    ("bad", "shows a violation"),
    ("fault", "stopped"),
    ("fault kill", "killed"),
    ("fault restart", "server started again"),
    ("fault partition", "network broken"),
    ("fault slow", "slow"),
    ("fault disk", "disk full"),
)


def claim_folder(folder: str) -> None:
    """Before anything begins: a report overwrites nothing."""
    try:
        os.makedirs(folder, exist_ok=True)
        there = os.listdir(folder)
    except OSError as error:
        raise StoreUnavailable(f"The report cannot be written to {folder}: {error.strerror}.") from None
    if there:
        raise InvalidInput(f"{folder} is not empty; a report overwrites nothing.")


def write(report: Report, folder: str) -> None:
    with open(os.path.join(folder, "report.txt"), "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines(report))
    with open(os.path.join(folder, "report.json"), "w", encoding="utf-8") as file:
        json.dump(data(report), file, indent=1)
    with open(os.path.join(folder, "report.html"), "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in _page(report))
    judged = {"assumptions": report.assumptions._asdict()}
    history.save(history.without_tokens(report.operations), os.path.join(folder, "history.jsonl"), judged)


def _page(report: Report) -> Iterator[str]:
    first, *rest = lines(report)
    yield f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{escape(first)}</title>"
    yield f"<style>{_STYLE}</style><h1>{escape(first)}</h1>"
    key = "".join(f"<span><i class='{kind}'></i>{escape(told)}</span>" for kind, told in _KEY)
    yield f"<p class='key'>{key}</p>"
    yield svg(report)
    yield f"<pre>{escape(chr(10).join(line for line in rest if not line.startswith('    ')))}</pre>"
    for violation in report.violations:
        shown = escape("\n".join(history_lines(report, violation)))
        yield f"<h2>{escape(violation.rule)}</h2><p>{escape(violation.message)}</p><pre>{shown}</pre>"
    yield "</html>"
