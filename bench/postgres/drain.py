"""One drain: W processes start together on a full queue in a new database; then the finished jobs are counted."""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from bench.postgres.workers.starting_line import MARK

if TYPE_CHECKING:
    from bench.postgres.participants import Participant
    from bench.postgres.server import Server

_ROOT = Path(__file__).parents[2]
_DATABASE = "drain"
_SECONDS_TO_FILL = 300
_SECONDS_TO_DRAIN = 600


class Failed(Exception):
    """A participant failed; the message has its last output."""


class Drained(NamedTuple):
    """Jobs per second, and the numbers of jobs never done, done twice, or not marked as done."""

    rate: float
    never: int = 0
    twice: int = 0
    unfinished: int = 0

    @property
    def exact(self) -> bool:
        return not (self.never or self.twice or self.unfinished)

    def faults(self) -> str:
        named = {"never done": self.never, "done twice": self.twice, "left unfinished": self.unfinished}
        return ", ".join(f"{count} {what}" for what, count in named.items() if count)


def drain(server: Server, participant: Participant, workers: int, jobs: int) -> Drained:
    with server.database(_DATABASE) as url:
        _fill(participant, url, jobs)
        server.settle(_DATABASE)
        seconds, done = _race(participant, url, workers)
        ((unfinished,),) = server.run(participant.unfinished, _DATABASE)
    never = len(set(range(jobs)) - set(done))
    return Drained((jobs - never) / seconds, never, len(done) - len(set(done)), int(str(unfinished)))


def _fill(participant: Participant, url: str, jobs: int) -> None:
    command = [*participant.environment.command(participant.worker), "fill", url, str(jobs)]
    variables = participant.environment.variables()
    try:
        subprocess.run(
            command, env=variables, cwd=_ROOT, check=True, capture_output=True, text=True, timeout=_SECONDS_TO_FILL
        )
    except subprocess.CalledProcessError as error:
        raise Failed(_last_line(error.stderr)) from None
    except subprocess.TimeoutExpired:
        raise Failed(f"could not be filled in {_SECONDS_TO_FILL} s") from None


def _race(participant: Participant, url: str, workers: int) -> tuple[float, list[int]]:
    """Seconds from the start to the last finished job, and all finished jobs."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as errors:
        started = [_start(participant, url, errors) for _ in range(workers)]
        patience = threading.Timer(_SECONDS_TO_DRAIN, _kill, (started,))
        patience.start()
        try:
            shot, reports = _run(started)
        except (EOFError, BrokenPipeError) as error:
            errors.seek(0)
            raise Failed(_last_line(errors.read()) or str(error)) from None
        finally:
            patience.cancel()
            _kill(started)
            for worker in started:
                worker.communicate()  # closes the pipes
    began = min((report["began"] for report in reports if "began" in report), default=shot)
    ended = max(report["ended"] for report in reports)
    return ended - began, [job for report in reports for job in report["jobs"]]


def _start(participant: Participant, url: str, errors: TextIO) -> subprocess.Popen[str]:
    environment = participant.environment
    return subprocess.Popen(
        [*environment.command(participant.worker), "drain", url, participant.mode, str(participant.batch)],
        env=environment.variables(),
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
    )


def _run(workers: list[subprocess.Popen[str]]) -> tuple[float, list[dict[str, Any]]]:
    """The start time, when all workers were ready, and the report of each worker."""
    for worker in workers:
        _hear(worker)
    shot = time.monotonic()
    for worker in workers:
        assert worker.stdin
        worker.stdin.write("go\n")
        worker.stdin.flush()
    return shot, [json.loads(_hear(worker)) for worker in workers]


def _kill(workers: list[subprocess.Popen[str]]) -> None:
    for worker in workers:
        worker.kill()


def _hear(worker: subprocess.Popen[str]) -> str:
    """The worker's next message; the output of its libraries is skipped."""
    assert worker.stdout
    for line in worker.stdout:
        if line.startswith(MARK):
            return line.removeprefix(MARK)
    raise EOFError(f"a worker ended early, with status {worker.wait()}")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].replace(str(_ROOT), ".") if lines else ""
