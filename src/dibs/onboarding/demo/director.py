"""The events of a demo beside the agents' work: the story as data, a power cut, a person who answers, a chat."""

import os
import sys
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from dibs.console.streams import paint
from dibs.core.fleet import Profile
from dibs.core.lifecycle import Verb
from dibs.core.messages import command
from dibs.core.plan import Plan, parse_yaml
from dibs.core.task import Actor, Status
from dibs.fleet.routing import Roster
from dibs.stores.port import Query

if TYPE_CHECKING:
    from dibs.core.task import Task
    from dibs.desk import Desk
    from dibs.onboarding.demo.stage import Stage

_FILE = os.path.join(os.path.dirname(__file__), "story.yaml")
_FAINT, _BOLD = "2", "1"


class Part(NamedTuple):
    """One of the cast."""

    agent: str
    role: str


class Chat(NamedTuple):
    """A message, and its time in seconds after the start."""

    at: float
    says: tuple[str, ...]


class Story(NamedTuple):
    cast: tuple[Part, ...]
    plan: Plan
    chat: tuple[Chat, ...]
    harbours: tuple[str, ...]
    template: tuple[dict[str, Any], ...]

    def sequel(self, number: int) -> tuple[str, Plan]:
        """The next port to plan; when the plan is finished, more follow."""
        lap, index = divmod(number, len(self.harbours))
        name = self.harbours[index] + (f" {lap + 1}" if lap else "")
        slug = name.lower().replace(" ", "-")
        tasks = [_draft_of(task, name, slug) for task in self.template]
        return name, _plan({"spec": f"low-water/{slug}", "tasks": tasks})


def story() -> Story:
    import yaml

    with open(_FILE, encoding="utf-8") as file:
        told = yaml.safe_load(file)
    return Story(
        tuple(Part(**part) for part in told["cast"]),
        _plan(told["plan"]),
        tuple(Chat(chat["at"], tuple(chat["says"])) for chat in told["chat"]),
        tuple(told["harbours"]),
        tuple(told["harbour"]),
    )


def _draft_of(task: dict[str, Any], name: str, slug: str) -> dict[str, Any]:
    plain = {key: value for key, value in task.items() if key != "takes"}
    return plain | {
        "id": f"{slug}-{task['id']}",
        "title": task["title"].format(name=name),
        "deps": [f"{slug}-{each}" for each in task.get("deps", ())],
        "extra": {"demo": {"takes": task["takes"]}},
    }


def _plan(told: dict[str, Any]) -> Plan:
    import json

    return parse_yaml(json.dumps(told))  # JSON is YAML, and the reader of plans checks it all


PERSON = "mira"  # the answer if no person gives one
_SENDER = "+31 555 0123"
_CUT_ROLE = "code"  # of whom one is killed
_CUT_FROM = 20.0  # seconds: let people see how it is meant to be first
_CUT_AFTER = 4.0  # seconds of work
_LEASE = 15.0  # seconds, at the usual speed
_SHORTEST_LEASE = 4.0
_PATIENCE = 30.0  # seconds that a person who watches has to answer first
_BACK_AFTER = 25.0  # seconds until a killed agent restarts, if another has taken over by then
_FEW = 4  # tasks that are held or ready
_SEQUEL_EVERY = 60.0  # seconds, at most
_KEPT = timedelta(minutes=5)  # finished tasks are kept, once there are many
_MANY, _TIDY_EVERY = 60, 30.0  # finished tasks, seconds


class KilledAgent(NamedTuple):
    """The killed agent, its task, the time, and whether it is back."""

    agent: str
    task: str
    at: float
    back: bool = False


class Director:
    """`speed` is how much quicker than usual; seconds are those of the story, from its beginning."""

    def __init__(self, stage: "Stage", desk: "Desk", story: "Story", speed: float, say: Callable[[str], None]) -> None:
        self._stage, self._desk, self._story, self._speed, self._say = stage, desk, story, speed, say
        self._person = desk.at(desk.scope, by=Actor(PERSON))
        self._chats = list(story.chat)
        self._sequels, self._sequel_at = 0, _SEQUEL_EVERY
        self._asked: dict[str, float] = {}
        self._cut: KilledAgent | None = None
        self._tidy_at = 0.0

    @property
    def lease(self) -> float:
        return max(_SHORTEST_LEASE, _LEASE / self._speed)

    def begin(self) -> int:
        """Make the plan and the fleet; how many tasks there are."""
        Roster(self._desk).add([Profile(part.agent, part.role, (part.role,), 1) for part in self._story.cast])
        return len(self._desk.apply_plan(self._story.plan).insert)

    def start_fleet(self) -> None:
        for part in self._story.cast:
            self._start(part)

    def _start(self, part: "Part") -> None:
        labour = (sys.executable, "-P", "-m", "dibs.onboarding.demo.labour", str(self._speed), self._stage.pages)
        lease, retry = f"{self.lease:.0f}s", f"{max(1.0, 6 / self._speed):.0f}s"
        terms = ("--can", part.role, "--lease", lease, "--retry-in", retry, "--grace", "1s", "--any-scope")
        tree = ("--worktree",) if self._stage.has_git else ()
        self._stage.start(part.agent, "work", "--agent", part.agent, *terms, *tree, "--", *labour)

    def tick(self, now: float) -> None:
        """Do whatever is due."""
        self._bring_back(now)
        self._cut_power(now)
        self._answer(now)
        self._chat(now)
        self._replan(now)
        self._tidy(now)

    # A worker dies

    def _cut_power(self, now: float) -> None:
        """Kill one agent, once, at work that another one can take over."""
        if self._cut is not None or now < _CUT_FROM:
            return
        held = self._desk.find(Query(self._desk.scope, (Status.ACTIVE,)))
        for task in held:
            if task.lease is not None and self._fit_to_lose(task):
                self._cut = KilledAgent(task.lease.agent, task.id, now)
                self._stage.kill(task.lease.agent)
                self._say(remark(f"{task.lease.agent} is killed (kill -9) in the middle of '{task.title}'."))
                self._say(f"    The lease expires within {self.lease:.0f} s, and another takes over.")
                return

    def _fit_to_lose(self, task: "Task") -> bool:
        """The first started task of an agent whose role has others, some time after its start."""
        assert task.lease is not None
        lease, now = task.lease, self._desk.now()
        told = task.extra.get("demo")
        plain = isinstance(told, Mapping) and told.keys() <= {"takes", "gives"}
        begun = now - lease.claimed_at > timedelta(seconds=_CUT_AFTER / self._speed)
        return _CUT_ROLE in task.requires and plain and begun and lease.attempt == 1 and lease.live(now)

    def _bring_back(self, now: float) -> None:
        """Restart a killed agent; print the log of an agent that left."""
        cut = self._cut
        for name in self._stage.gone():
            if cut is None or name != cut.agent:
                self._say(remark(f"{name} has left: {self._stage.last_line(name)}"))
        if cut is None or cut.back or now - cut.at < _BACK_AFTER or self._desk.get(cut.task).attempt == 1:
            return
        self._cut = cut._replace(back=True)
        self._start(next(part for part in self._story.cast if part.agent == cut.agent))
        self._say(remark(f"{cut.agent} restarts and continues with another task."))

    # A person is asked

    def _answer(self, now: float) -> None:
        for task in self._desk.find(Query(self._desk.scope, (Status.BLOCKED, Status.REVIEW))):
            if task.id not in self._asked:
                self._asked[task.id] = now
                self._ask(task)
            elif now - self._asked[task.id] > _PATIENCE:
                self._asked.pop(task.id)
                verb = Verb.APPROVE if task.status is Status.REVIEW else Verb.UNBLOCK
                self._say(remark(f"No answer came; {PERSON} does."))
                self._person.move(verb, task.id)

    def _ask(self, task: "Task") -> None:
        if task.status is Status.REVIEW:
            self._say(remark(f"'{task.title}' waits for your approval, here or on the board:"))
            self._say(typed(command("dibs", "approve", task.id)))
        else:
            self._say(remark(f"'{task.title}' waits for a person: {task.unblock_action or task.reason}"))
            self._say(typed(command("dibs", "unblock", task.id)))

    # A message arrives

    def _chat(self, now: float) -> None:
        while self._chats and now >= self._chats[0].at:
            self._say(remark(f"{PERSON} asks for more work, in plain words:"))
            for said in self._chats.pop(0).says:
                self._say(typed(f'dibs say --sender "{_SENDER}" "{said}"'))
                self._stage.run("say", "--sender", _SENDER, said)
            for line in self._stage.run("flush", "--sender", _SENDER).splitlines():
                self._say(f"        {line.strip()[:100]}")

    # There is always more

    def _replan(self, now: float) -> None:
        """Plan more when few tasks are left, but not too often."""
        counts = self._desk.counts()
        lively = counts.claimable + counts.by_status[Status.ACTIVE]
        if lively >= _FEW or now < self._sequel_at:
            return
        name, plan = self._story.sequel(self._sequels)
        self._sequels += 1
        self._sequel_at = now + _SEQUEL_EVERY
        added = self._desk.apply_plan(plan).insert
        self._say(remark(f"The skippers want more: {len(added)} tasks for {name} are planned."))

    def _tidy(self, now: float) -> None:
        """Prune old tasks, so that the board shows only the last minutes."""
        if now < self._tidy_at:
            return
        self._tidy_at = now + _TIDY_EVERY
        if self._desk.counts().by_status[Status.DONE] > _MANY:
            self._desk.prune(events_before=None, tasks_before=self._desk.now() - _KEPT)


def remark(text: str) -> str:
    """What the demo itself has to say."""
    return f"\n  {paint('▸', _BOLD)} {text}"


def typed(command: str) -> str:
    """Something to type, or that was typed."""
    return f"      {paint('$', _FAINT)} {paint(command, _BOLD)}"
