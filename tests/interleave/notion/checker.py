"""Check every schedule of a few agents with a clock of a few ticks.

The agents are the real generators. Their requests are served, committed, answered, abandoned and committed late in
every order, after every delay of up to `delay` ticks; each state is visited once. A generator cannot be copied, so an
agent is stored as the answers it received, with times counted from its start, and is replayed from them.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Literal, NamedTuple

from dibs.core.errors import DibsError, StoreUnavailable
from dibs.stores.notion.guard import Failed, Read, Seen, Wait, Write
from interleave.notion.page import Page, moment, taking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dibs.stores.notion.guard import Answer, Ask, Bounds, Step, Steps, View

    Claim = Callable[[str, Ask, Bounds], Steps]
    History = tuple[Answer, ...]

_FAILED = Failed(StoreUnavailable("no answer"))
_OFFSET = 30  # keeps all times of a schedule within one minute, so that leases look the same


class Agent(NamedTuple):
    """`age` counts from the start, `since` from the current request or sleep; `heard` is an answer on its way."""

    history: History = ()
    age: int = 0
    since: int = 0
    heard: View | None = None
    phase: Literal["not yet", "at it", "holds", "out"] = "not yet"


class State(NamedTuple):
    """`past` has replaced views with their age in ticks; `late` has writes whose sender stopped waiting."""

    view: View
    agents: tuple[Agent, ...]
    past: tuple[tuple[View, int], ...] = ()
    late: frozenset[tuple[int, History]] = frozenset()


class Checker:
    def __init__(self, claim: Claim, bounds: Bounds, *, agents: int, delay: int, deaf: bool = False) -> None:
        """With `deaf`, reads may fail as well; writes always may."""
        self._claim, self._bounds, self._delay, self._deaf = claim, bounds, delay, deaf
        self._played: dict[tuple[int, History], Step | bool] = {}
        self._start = State(Page().view, tuple(Agent() for _ in range(agents)))
        self.states = 0
        self.held = 0

    def double_claim(self) -> list[str] | None:
        """The first schedule found after which two agents hold the task, step by step."""
        came_from: dict[State, tuple[State, str] | None] = {self._start: None}
        waiting = deque([self._start])
        while waiting:
            state = waiting.popleft()
            for told, following in self._following(state):
                if following in came_from:
                    continue
                came_from[following] = (state, told)
                holders = sum(agent.phase == "holds" for agent in following.agents)
                self.held += holders
                if holders > 1:
                    return _schedule(came_from, following)
                waiting.append(following)
        self.states = len(came_from)
        return None

    def _following(self, state: State) -> Iterator[tuple[str, State]]:
        for who, agent in enumerate(state.agents):
            if agent.phase == "not yet":
                yield f"{_name(who)}: begins", _with(state, who, Agent(phase="at it"))
            elif agent.phase == "at it":
                yield from self._acts(state, who, agent)
        for who, history in state.late:
            rest = state.late - {(who, history)}
            view, past = self._written(state, who, history)
            yield (
                f"{_name(who)}: the write it had given up is committed",
                state._replace(view=view, past=past, late=rest),
            )
        if all(self._may_wait(who, agent) for who, agent in enumerate(state.agents)):
            yield "tick", _ticked(state, self._bounds)

    def _acts(self, state: State, who: int, agent: Agent) -> Iterator[tuple[str, State]]:
        step = self._step(who, agent.history)
        if isinstance(step, Wait):
            if agent.age - agent.since >= step.seconds:
                yield f"{_name(who)}: wakes up", self._answered(state, who, None)
        elif isinstance(step, Read):
            for view in {state.view, *(view for view, _ in state.past)}:
                seen = Seen(view, agent.since, agent.age, moment(_OFFSET + agent.age))
                told = f"{_name(who)}: reads {view.token or 'free'}"
                yield told, self._answered(state, who, seen)
            if self._deaf:
                yield f"{_name(who)}: reads nothing", self._answered(state, who, _FAILED)
        elif agent.heard is not None:
            seen = Seen(agent.heard, agent.since, agent.age, moment(_OFFSET + agent.age))
            yield f"{_name(who)}: hears of its write", self._answered(state, who, seen)
            yield f"{_name(who)}: hears nothing of its write", self._answered(state, who, _FAILED)
        else:
            yield from self._commits(state, who, agent)

    def _commits(self, state: State, who: int, agent: Agent) -> Iterator[tuple[str, State]]:
        view, past = self._written(state, who, agent.history)
        waiting = _with(state, who, agent._replace(heard=view))
        yield f"{_name(who)}: writes", waiting._replace(view=view, past=past)
        given_up = state._replace(late=state.late | {(who, agent.history)})
        yield f"{_name(who)}: gives up waiting for its write", self._answered(given_up, who, _FAILED)

    def _written(self, state: State, who: int, history: History) -> tuple[View, tuple[tuple[View, int], ...]]:
        step = self._step(who, history)
        assert isinstance(step, Write)
        page = Page()
        page.view = state.view
        view = page.write(step.changes, 0)
        return view, tuple(dict.fromkeys((*state.past, (state.view, 0)))) if self._bounds.staleness else ()

    def _answered(self, state: State, who: int, answer: Answer) -> State:
        """The agent after an answer: at its next request, or at its end, which drops its history."""
        agent = state.agents[who]
        history = (*agent.history, answer)
        step = self._step(who, history)
        if isinstance(step, bool):
            return _with(state, who, Agent(phase="holds" if step else "out"))
        if isinstance(step, Write) and agent.age > step.by:
            return self._answered(
                _with(state, who, agent._replace(history=history)), who, Failed(_FAILED.error, sent=False)
            )
        return _with(state, who, Agent(history, agent.age, agent.age, phase="at it"))

    def _step(self, who: int, history: History) -> Step | bool:
        """The agent's next step after these answers; at its end, whether it believes that it holds the task."""
        key = (who, history)
        if key not in self._played:
            self._played[key] = self._play(who, history)
        return self._played[key]

    def _play(self, who: int, history: History) -> Step | bool:
        name = _name(who)
        steps = self._claim(name, taking(name, name, self._bounds), self._bounds)
        try:
            step = steps.send(None)
            for answer in history:
                step = steps.send(answer)
        except StopIteration:
            return True
        except DibsError as error:
            error.__traceback__ = None  # it is raised again, and would keep alive every frame it has passed
            return False
        return step

    def _may_wait(self, who: int, agent: Agent) -> bool:
        """Whether the agent may wait another tick. An agent that has not begun or has ended may wait without limit."""
        if agent.phase != "at it":
            return True
        step = self._step(who, agent.history)
        asleep = step.seconds if isinstance(step, Wait) else 0
        return agent.age - agent.since < asleep + self._delay


def _ticked(state: State, bounds: Bounds) -> State:
    agents = tuple(agent._replace(age=agent.age + 1) if agent.phase == "at it" else agent for agent in state.agents)
    past = tuple((view, ticks + 1) for view, ticks in state.past if ticks < bounds.staleness)
    return state._replace(agents=agents, past=past)


def _with(state: State, who: int, agent: Agent) -> State:
    return state._replace(agents=(*state.agents[:who], agent, *state.agents[who + 1 :]))


def _name(who: int) -> str:
    return "ABC"[who]


def _schedule(came_from: dict[State, tuple[State, str] | None], state: State) -> list[str]:
    told = []
    step = came_from[state]
    while step is not None:
        state, what = step
        told.append(what)
        step = came_from[state]
    return told[::-1]
