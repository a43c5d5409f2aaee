"""Every command by topic with its module and summary, and the pages of `dibs help`.

To add a command, add one line to its topic.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from dibs.console.commands import Group, Table, listed
from dibs.core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence


PACKAGE = "dibs.cli.commands"


class Topic(NamedTuple):
    """`commands` are `dibs NAME`; `groups` are words with commands of their own under them, such as `dibs agent add`.

    The module of a group has it as GROUP; it is "" for those at the end of this page.
    """

    title: str
    commands: Table
    groups: Table = MappingProxyType({})


TOPICS = {
    "start": Topic("Start here", {
        "init": ("stores", "make this folder a dibs project"),
        "add": ("tasks", "add a task"),
        "list": ("queries", "list tasks"),
        "claim": ("claims", "claim the next task, or the one you name"),
        "done": ("outcomes", "finish a task, and with --next claim the following one"),
    }),
    "look": Topic("Look", {
        "status": ("queries", "show the tasks you hold, and those that are ready, blocked or need a person"),
        "show": ("queries", "show one task with its links and history"),
        "search": ("queries", "find tasks by words in title, description and comments"),
        "ready": ("queries", "list the tasks that can be claimed now, in order"),
        "next": ("queries", "show the task that would be claimed next"),
        "stale": ("queries", "list tasks with expired leases, overdue checks and old holds"),
        "log": ("queries", "list events: the agent, the change and the time"),
        "logs": ("work", "print the output of an attempt; --follow keeps printing"),
        "stats": ("queries", "count tasks by status"),
        "scores": ("agents", "count the tasks that each agent finished, failed and lost"),
        "open": ("queries", "open the board in a browser, at one task"),
        "graph": ("plans", "draw the tasks and their links"),
        "top": ("top", "watch agents, leases and the queue live in the terminal"),
    }),
    "work": Topic("Work on a task", {
        "renew": ("claims", "renew your lease of a task"),
        "release": ("claims", "give a task back unfinished"),
        "fail": ("outcomes", "report that an attempt failed"),
        "block": ("outcomes", "block a task until a person or an outside change unblocks it"),
        "review": ("outcomes", "submit a task for review"),
        "comment": ("tasks", "add a comment to a task"),
    }),
    "steer": Topic("Steer", {
        "edit": ("tasks", "change the fields of a task"),
        "assign": ("tasks", "reserve a task for one agent"),
        "close": ("outcomes", "finish a task that no agent holds, as a person"),
        "reopen": ("outcomes", "make a done or canceled task ready again"),
        "undo": ("tasks", "take back your last change"),
        "cancel": ("outcomes", "cancel a task"),
        "unblock": ("tasks", "make a blocked or escalated task ready again"),
        "approve": ("tasks", "accept a task in review: it is done"),
        "rework": ("tasks", "send a task in review back to work"),
        "pause": ("tasks", "pause a task: no agent can claim it"),
        "resume": ("tasks", "resume a paused task"),
    }),
    "plan": Topic("Plan", {
        "plan": ("plans", "apply a plan file, or print the current plan"),
        "link": ("plans", "make a task depend on another"),
        "unlink": ("plans", "remove a dependency"),
    }),
    "fleet": Topic("Run a fleet", {
        "setup": ("setup", "connect Claude Code, Codex, Cursor, … to dibs, or disconnect them"),
        "prime": ("setup", "print the briefing for an agent"),
        "work": ("work", "run a command on each task"),
        "dispatch": ("agents", "assign ready tasks to matching agents"),
    }, {
        "agent": ("", "manage enrolled agents, their roles and limits"),
        "mail": ("", "send and read letters between agents"),
        "worktree": ("", "manage the git worktrees of tasks"),
    }),
    "chat": Topic("Plan in plain words", {
        "say": ("chat", "send a message in plain words: tasks, changes or questions"),
        "flush": ("chat", "turn the waiting messages into tasks now"),
        "inbox": ("chat", "read the answers to your messages"),
        "config": ("chat", "show or change chat settings, globally or per sender"),
        "analyze": ("chat", "preview the tasks that messages would become"),
    }),
    "serve": Topic("Serve", {
        "serve": ("serve", "serve the board and the HTTP API"),
        "mcp": ("serve", "serve the tasks as tools for a model, on stdin and stdout"),
        "login": ("tokens", "store the token of a server for later commands"),
        "logout": ("tokens", "delete the stored token of a server"),
        "demo": ("serve", "run a small fleet on a sample plan and open the board"),
    }, {
        "token": ("", "manage tokens for a server that others can reach"),
        "webhook": ("", "manage the addresses that a server posts events to"),
    }),
    "maintain": Topic("Maintain", {
        "doctor": ("stores", "check the store, and with --fix repair it"),
        "export": ("stores", "write everything as JSON lines, or the tasks in another format"),
        "import": ("stores", "import an export, or another tool's tasks"),
        "backup": ("stores", "write the whole store to a file, tokens included"),
        "restore": ("stores", "replace the whole store with a backup"),
        "prune": ("stores", "delete old events and long finished tasks"),
        "sync": ("sync", "sync a sender's tasks with a Notion database"),
        "completion": ("completion", "print the completion script for your shell"),
        "version": ("stores", "print the version"),
        "torture": ("lab", "test a store: inject faults into workers and check the result"),
        "notion-emulator": ("lab", "run a local Notion for trials, without an account"),
    }, {"notion": ("", "check your own Notion workspace")}),
    "protocols": Topic("Protocols", {}, {
        "vault": ("dibs.protocols.vault.main", "share tasks as Markdown files in one folder"),
        "mesh": ("dibs.protocols.mesh.policy", "run the Task Claim Protocol on one shared queue"),
        "kurultai": ("dibs.protocols.kurultai.main", "run six agents on a graph of tasks, for many senders"),
    }),
}  # fmt: skip


def _shared(parser: object) -> None:
    from dibs.cli.command import add_shared

    add_shared(parser)  # type: ignore[arg-type]  # a Parser; its import waits until one is made


_OWN = {
    "agent": Group("agent", PACKAGE, {
        "add": ("agents", "enrol an agent, or change its profile"),
        "list": ("agents", "list enrolled agents, their presence and their load"),
        "show": ("agents", "show one agent and its tasks"),
        "remove": ("agents", "remove an agent; its assigned tasks go to others"),
    }, _shared, "Enrolled agents: each has a role, capabilities, and a limit of tasks at a time.",
        ("'dibs dispatch' assigns tasks to them.",)),
    "mail": Group("mail", PACKAGE, {
        "send": ("mail", "send a letter to agents or to a role, or hand a task over"),
        "read": ("mail", "read new mail"),
        "watch": ("mail", "print mail as it arrives"),
    }, _shared, "Mail between agents: each letter is read once.", ("DIBS_AGENT says who you are.",)),
    "worktree": Group("worktree", PACKAGE, {
        "list": ("work", "list the worktrees of tasks with their changes"),
        "open": ("work", "print the path of a task's worktree; create it if needed"),
        "diff": ("work", "print the changes of a task's branch"),
        "remove": ("work", "remove a task's worktree and branch, if they are merged"),
        "prune": ("work", "remove the worktrees of finished tasks that are merged"),
    }, _shared, "The git worktrees of tasks, below .dibs/worktrees, each with a branch dibs/TASK.",
        ("'dibs work --worktree' makes them.",)),
    "notion": Group("notion", PACKAGE, {
        "check": ("lab", "check whether timed claims are safe in a real Notion workspace"),
    }, _shared, "Checks of your own Notion workspace.",
        ("--store notion://ID names the database, NOTION_TOKEN is its key.",)),
    "token": Group("token", PACKAGE, {
        "create": ("tokens", "create a token for a viewer, a worker, a planner or a sender"),
        "list": ("tokens", "list the tokens made for this store"),
        "revoke": ("tokens", "revoke tokens; every server refuses them within five seconds"),
    }, _shared, "Tokens for a server that others can reach.", ("DIBS_SERVE_SECRET signs the tokens.",)),
    "webhook": Group("webhook", PACKAGE, {
        "add": ("serve", "add an address to post events to, and print the secret that signs them"),
        "list": ("serve", "list the webhooks of this store and their problems"),
        "test": ("serve", "post a test event to a webhook now"),
        "remove": ("serve", "stop posting to a webhook"),
    }, _shared, "Webhooks: 'dibs serve' posts events to other programs.", ("DIBS_SERVE_SECRET signs the events.",)),
}  # fmt: skip

COMMANDS: dict[str, tuple[str, str]] = {}
GROUPS: dict[str, tuple[str, str]] = {}
for _topic in TOPICS.values():
    COMMANDS.update(_topic.commands)
    GROUPS.update(_topic.groups)


def group(name: str) -> Group:
    """The commands under this word; a protocol keeps its own in its package."""
    if name in _OWN:
        return _OWN[name]
    from importlib import import_module

    found: Group = import_module(GROUPS[name][0]).GROUP
    return found


_USAGE = "usage: dibs [--store URL] [--scope NAME] [--json] COMMAND …"
_ABOUT = "Hand out tasks to agents and people: one task, one holder, in the right order."
_STATUSES = (
    "Exit statuses: 0 fine, 2 wrong input, 3 not found, 4 not now, 5 lease lost,",
    "6 would break the graph, 7 store trouble.",
)
_EVERYTHING = "all"
_INDENT = 13
_WIDTH = 78


def overview() -> str:
    """The screen of a bare `dibs`: how to begin, and where the rest is."""
    start, *others = TOPICS
    lines = [_USAGE, "", _ABOUT, "", TOPICS[start].title, *listed(TOPICS[start].commands), "", "More topics"]
    for name in others:
        lines += _wrapped(name, [*TOPICS[name].commands, *TOPICS[name].groups])
    more = (
        f"'dibs help TOPIC' explains a topic, 'dibs help {_EVERYTHING}' lists every command,",
        "'dibs COMMAND --help' shows its options with examples.",
    )
    return "\n".join([*lines, "", *more])


def _wrapped(topic: str, names: Sequence[str]) -> list[str]:
    """The topic, and beside it the names of its commands."""
    lines, room = [f"  {topic:<{_INDENT - 3}}"], _WIDTH
    for number, name in enumerate(names):
        word = name + ("," if number < len(names) - 1 else "")
        if len(lines[-1]) + 1 + len(word) > room:
            lines.append(" " * (_INDENT - 1))
        lines[-1] += f" {word}"
    return lines


def page(topic: str) -> str:
    """All commands of one topic, or of all topics, with their summaries."""
    topics = TOPICS.values() if topic == _EVERYTHING else [TOPICS[topic]]
    lines = [_USAGE]
    for each in topics:
        lines += ["", each.title, *listed(_rows(each), width=_widest(topics))]
    tells = f"'dibs {topic if topic in COMMANDS else 'COMMAND'} --help' shows the options of a command, with examples."
    return "\n".join([*lines, "", tells, *(_STATUSES if topic == _EVERYTHING else ())])


def _rows(topic: Topic) -> dict[str, tuple[str, str]]:
    return {**topic.commands, **{f"{name} …": about for name, about in topic.groups.items()}}


def _widest(topics: object) -> int:
    return max(len(name) for topic in topics for name in _rows(topic))  # type: ignore[attr-defined]


def explain(words: Sequence[str]) -> list[str] | str:
    """What `dibs help WORDS` shows: a page, or the words of the command whose --help says it."""
    if not words:
        return overview()
    name = words[0].lower()
    if name not in {_EVERYTHING, *TOPICS, *COMMANDS, *GROUPS}:
        from dibs.cli.synonyms import NEAR_WORDS, SAME

        name = (SAME.get(name) or NEAR_WORDS.get(name, (name, ""))[0]).split()[0]
    if name in TOPICS or name == _EVERYTHING:
        return page(name)
    if name in COMMANDS:
        return [name, "--help"]
    if name in GROUPS:
        return [name, *words[1:], "--help"]
    raise InvalidInput(f"There is no topic and no command '{name[:40]}'. 'dibs help' lists them.")
