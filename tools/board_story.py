"""A desk in the middle of its day, for pictures of the board: a small product shortly before its release."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from dibs.core.fleet import Profile
from dibs.core.lifecycle import Verb
from dibs.core.task import Actor, Draft, Edit, Holder, Link, LinkKind, ServiceClass, Status
from dibs.fleet.routing import Roster

if TYPE_CHECKING:
    from dibs.core.task import Json
    from dibs.desk import Desk

MEMBERS = (
    Profile("marta", "researcher", ("interviews", "web"), 2),
    Profile("ines", "designer", ("figma",), 1),
    Profile("otto", "developer", ("python", "sql"), 2),
    Profile("yuki", "developer", ("typescript",), 2),
    Profile("paul", "tester", ("browser",), 2),
    Profile("lena", "writer", ("german", "english"), 2),
)

# id, title, category, deliverable, priority, prerequisites
PLAN: tuple[tuple[str, str, str, str, float, str], ...] = (
    ("interviews", "Interview five shop owners about their stocktaking", "research", "report", 1, ""),
    ("rivals", "Compare what three rivals charge, and for what", "research", "report", 2, ""),
    ("needs", "Write down the ten needs that came up most", "research", "document", 1, "interviews"),
    ("pricing", "Propose a price, with the reasons", "research", "document", 2, "rivals needs"),
    ("flow", "Sketch the counting flow on a phone", "design", "mockup", 1, "needs"),
    ("look", "Choose type, colours and icons", "design", "mockup", 2, ""),
    ("screens", "Draw the four main screens", "design", "mockup", 1, "flow look"),
    ("schema", "Tables for articles, shelves and counts", "backend", "code", 1, "needs"),
    ("api", "HTTP API for counts, with conflicts told apart", "backend", "code", 1, "schema"),
    ("import", "Read article lists from CSV and spreadsheets", "backend", "code", 2, "schema"),
    ("auth", "Sign-in by link, no passwords", "backend", "code", 1, "schema"),
    ("offline", "Keep counting without a network, merge later", "app", "code", 1, "api screens"),
    ("scanner", "Scan barcodes with the camera", "app", "code", 1, "screens"),
    ("count", "Counting screen", "app", "code", 1, "api screens"),
    ("reports", "Differences between two counts as a table", "app", "code", 2, "count"),
    ("export", "Export to the tax adviser's format", "backend", "code", 3, "api"),
    ("unit", "Property tests for merging two offline counts", "quality", "tests", 1, "offline"),
    ("devices", "Try the scanner on eight old phones", "quality", "tests", 2, "scanner"),
    ("load", "Two hundred counters at once for an hour", "quality", "tests", 2, "api auth"),
    ("access", "Accessibility check of all screens", "quality", "tests", 2, "count reports"),
    ("manual", "First steps, on one page with pictures", "docs", "document", 2, "count scanner"),
    ("faq", "Answer the twelve questions from the interviews", "docs", "document", 3, "needs"),
    ("privacy", "Privacy notice, read by a lawyer", "docs", "document", 1, "auth"),
    ("site", "Landing page with the price", "launch", "page", 2, "pricing look"),
    ("hosting", "Servers in two places, restored from a backup once", "launch", "service", 1, "api"),
    ("beta", "Ten shops count with it for a week", "launch", "report", 1, "offline scanner auth manual hosting"),
    ("fixes", "Put right what the beta found", "app", "code", 1, "beta"),
    ("release", "Release 1.0", "launch", "release", 0, "fixes unit access privacy site load"),
    ("mail", "Write to everybody on the waiting list", "launch", "mail", 2, "release"),
    ("cert", "Renew the certificate of the old site", "launch", "service", 2, ""),
    ("tidy", "Tidy up the prototype's repository", "backend", "code", 4, ""),
    ("translate", "Second language: French", "docs", "document", 3, "manual"),
    ("podcast", "Answer the podcast's invitation", "launch", "mail", 3, ""),
)

FINISHED: tuple[tuple[str, str, Json], ...] = (
    ("interviews", "marta", {"note": "Five talks. **Nobody** counts with a network: the cellar has none."}),
    ("look", "ines", {"note": "Two weights, one accent; icons from the set we own."}),
    ("needs", "marta", {"needs": ["count offline", "scan", "see differences", "two people at once"], "asked": 5}),
    ("rivals", "marta", {"note": "39 to 120 a month; none works offline."}),
    ("flow", "ines", {"note": "Three taps an article."}),
    ("schema", "otto", {"tables": ["article", "shelf", "count", "conflict"], "migrations": 3}),
    ("screens", "ines", {"note": "Four screens, light and dark."}),
    ("api", "otto", {"note": "See docs/api.md", "endpoints": 9}),
)


def tell(desk: Desk) -> None:
    """Bring the desk to where the pictures are taken."""
    Roster(_as("anna", desk)).add(MEMBERS)
    _as("anna", desk).add(*_planned())
    for task, agent, result in FINISHED:
        artifacts = ["docs/api.md", "https://example.org/larch/api"] if task == "api" else []
        _ended(_as(agent, desk), task, Verb.DONE, result=result, artifacts=artifacts)
    _present(desk)


def _as(agent: str, desk: Desk) -> Desk:
    return desk.at(desk.scope, by=Actor(agent))


def _ended(desk: Desk, task: str, verb: Verb, **said: Any) -> None:
    claimed = desk.claim(desk.by.agent or "", refs=[task])[0].task
    desk.move(verb, task, token=claimed.lease.token if claimed.lease else None, **said)


def _planned() -> tuple[list[Draft], list[Link]]:
    drafts, links = [], []
    for name, title, category, deliverable, priority, waits in PLAN:
        drafts.append(
            Draft(title, id=name, category=category, deliverable=deliverable, priority=priority, **_more(name))
        )
        links += [Link(name, on) for on in waits.split()]
    links.append(Link("faq", "interviews", LinkKind.FEEDS_INTO))
    return drafts, links


def _more(name: str) -> dict[str, Any]:
    special: dict[str, dict[str, Any]] = {
        "cert": {"service_class": ServiceClass.EXPEDITE},
        "privacy": {"service_class": ServiceClass.FIXED_DATE},
        "tidy": {"service_class": ServiceClass.INTANGIBLE},
        "podcast": {"status": Status.BACKLOG},
        "count": {
            "description": "The screen for people who count in a cellar with cold hands.\n\n"
            "- large buttons, one hand is enough\n- the last five articles stay in sight\n"
            "- no network is **not** an error\n\nThe sketch is in `design/count.fig`; numbers as in `docs/api.md`.",
            "steps": ("List of articles", "Number pad", "Undo of the last count"),
        },
        "devices": {"requires": ("browser",)},
    }
    return special.get(name, {})


def _present(desk: Desk) -> None:
    for task, agent, minutes in (
        ("count", "yuki", 20),
        ("auth", "otto", 12),
        ("import", "otto", 18),
        ("hosting", "paul", 15),
    ):
        _as(agent, desk).claim(agent, refs=[task], lease=timedelta(minutes=minutes))
    _as("yuki", desk).claim("yuki", refs=["scanner"], lease=timedelta(seconds=75))
    result = {"note": "All twelve, shorter than the questions."}
    _ended(_as("lena", desk), "faq", Verb.REVIEW, result=result, reason="Is the answer about refunds right?")
    why = "The rivals' prices for chains are only given on the phone."
    _ended(_as("marta", desk), "pricing", Verb.BLOCK, reason=why, unblock_action="Call two of them.")
    anna = _as("anna", desk)
    anna.move(Verb.PAUSE, "export", reason="Not before the tax adviser has answered.")
    anna.claim("anna", refs=["cert"], holder=Holder.HUMAN)
    anna.comment("count", "The number pad must not jump when the keyboard opens.")
    anna.edit("site", Edit(priority=1, why="the fair is in March"))


# What Anna says in the chat, and with which button.
CHAT = (
    ("Collect the open questions of the beta shops, and write an answer to each based on them", "Say"),
    ("Order ten barcode labels for the fair", "Say"),
    ("", "Read now"),
    ("Do the labels before the questions", "Preview"),
    ("Priority: labels first", "Say"),
)
