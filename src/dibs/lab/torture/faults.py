"""What befalls the workers and their store, from outside, at moments that nobody has chosen for them."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from dibs.lab.torture.crew import fill_the_disk, go_on, make_room, stand_still
from dibs.lab.torture.history import now

if TYPE_CHECKING:
    import random
    import subprocess
    from collections.abc import Callable, Iterable

    from dibs.lab.torture.crew import Crew, Seat
    from dibs.lab.torture.proxies import Proxy

    Act = Callable[[subprocess.Popen[bytes]], None]

_SECONDS_BETWEEN = {"kill": 1.5, "stop": 2.5, "restart": 20.0, "partition": 2.5, "disk": 5.0, "slow": 4.0}
_BREAKS = ("cut", "freeze", "refuse", "hole", "answer", "answer", "request")


class Mark(NamedTuple):
    """Something happened, to a seat or to all of them."""

    fault: str
    what: str
    begin: float
    end: float
    seat: int | None = None


class Faults:
    """Strikes when it is time, heals when it is time, and notes both."""

    def __init__(
        self,
        names: Iterable[str],
        crew: Crew,
        dice: random.Random,
        *,
        lease: float,
        calm: float,
        proxy: Proxy | None,
        restart: Callable[[], None] | None,
    ) -> None:
        self._crew, self._dice, self._lease, self._calm = crew, dice, lease, calm
        self._proxy, self._restart = proxy, restart
        self._strikes = {
            "kill": self._kill,
            "stop": self._stop,
            "restart": self._start_again,
            "partition": self._partition,
            "disk": self._fill_the_disk,
            "slow": self._slow_down,
        }
        self._names = [name for name in names if name in self._strikes]
        self._due: dict[str, float] = {}
        self._healing: list[tuple[float, Callable[[], None]]] = []
        self.marks: list[Mark] = []
        self.trouble: list[str] = []

    @property
    def counts(self) -> Counter[str]:
        return Counter(mark.fault for mark in self.marks)

    def tick(self) -> None:
        """Called again and again; the first call begins it."""
        if not self._due:
            self._due = {name: now() + self._soon(name) / 2 for name in self._names}
        for name, due in self._due.items():
            if now() > due:
                self._strikes[name]()
                self._due[name] = now() + self._soon(name)
        self._heal(now())

    def end(self) -> None:
        """All is well again."""
        self._cut_short(lambda _mark: True)
        self._heal(float("inf"))
        if self._proxy is not None:
            self._proxy.heal()

    def _soon(self, name: str) -> float:
        return self._dice.uniform(0.5, 1.5) * self._calm * _SECONDS_BETWEEN[name]

    def _heal(self, moment: float) -> None:
        due = [heal for until, heal in self._healing if until <= moment]
        self._healing = [(until, heal) for until, heal in self._healing if until > moment]
        for heal in due:
            heal()

    def _note(self, fault: str, what: str, seconds: float = 0.0, seat: int | None = None) -> None:
        begin = now()
        self.marks.append(Mark(fault, what, begin, begin + seconds, seat))

    def _kill(self) -> None:
        seat = self._dice.choice(self._crew.seats)
        self._cut_short(lambda mark: mark.seat == seat.number)
        self._note("kill", "killed", seat=seat.number)
        self._crew.kill(seat)

    def _cut_short(self, which: Callable[[Mark], bool]) -> None:
        """What was to last longer is over now."""
        self.marks = [mark._replace(end=min(mark.end, now())) if which(mark) else mark for mark in self.marks]

    def _stop(self) -> None:
        """For longer than a lease, where those are short; it will go on as if nothing had been."""
        awake = self._awake()
        if awake:
            seat = self._dice.choice(awake)
            seconds = min(self._lease, 5.0) * self._dice.uniform(1.1, 1.8)
            self._note("stop", "stopped", seconds, seat.number)
            self._for(seconds, [seat], stand_still, go_on)

    def _awake(self) -> list[Seat]:
        """Those who do not stand still already: whoever wakes them would wake them too early."""
        asleep = {mark.seat for mark in self.marks if mark.fault == "stop" and mark.end > now()}
        return [seat for seat in self._crew.seats if seat.number not in asleep]

    def _for(self, seconds: float, seats: Iterable[Seat], strike: Act, heal: Act) -> None:
        """Do this to the workers in these seats, and undo it after a while."""
        for process in [seat.process for seat in seats if seat.process is not None]:
            strike(process)
            self._healing.append((now() + seconds, partial(heal, process)))

    def _start_again(self) -> None:
        """Nothing else strikes meanwhile."""
        if self._restart is None:
            return
        begin = now()
        try:
            self._restart()
        except Exception as error:  # noqa: BLE001 - whatever it was, it is told with the verdict
            self.trouble.append(f"the server could not be started again: {error}")
        self.marks.append(Mark("restart", "server started again", begin, now()))

    def _partition(self) -> None:
        proxy, seconds = self._proxy, self._dice.uniform(0.3, 2.0)
        if proxy is None:
            return
        what = self._dice.choice(_BREAKS)
        if what == "cut":
            proxy.cut()
        elif what == "freeze":
            proxy.freeze()
        elif what == "refuse":
            proxy.refuse()
        elif what == "hole":
            proxy.black_hole()
        elif what == "answer":
            proxy.lose_answer(b"")
        else:
            proxy.lose_request(b"")
        lasting = what in {"refuse", "hole"}
        self._note("partition", _IN_WORDS[what], seconds if lasting else 0.0)
        if lasting:
            self._healing.append((now() + seconds, proxy.heal))

    def _slow_down(self) -> None:
        """A slow network; or, where there is none, workers that stand still for a moment, maybe with a lock."""
        seconds = self._dice.uniform(0.5, 2.0)
        if self._proxy is not None:
            self._proxy.delay = self._dice.uniform(0.02, 0.2)
            self._note("slow", "slow network", seconds)
            self._healing.append((now() + seconds, self._proxy.heal))
            return
        pause = self._dice.uniform(0.05, 0.4)
        self._note("slow", "all stand still", pause)
        self._for(pause, self._awake(), stand_still, go_on)

    def _fill_the_disk(self) -> None:
        seconds = self._dice.uniform(0.3, 1.5)
        self._note("disk", "no room", seconds)
        self._for(seconds, self._crew.seats, fill_the_disk, make_room)


_IN_WORDS = {
    "cut": "connections reset",
    "freeze": "connections half-open",
    "refuse": "server refuses",
    "hole": "nothing passes",
    "answer": "an answer is lost",
    "request": "a request is lost",
}
