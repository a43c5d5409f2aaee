"""A small fleet at work: four processes, one plan, one killed and one late, and nothing done twice.

Run it with `make run`. It makes a project in a temporary folder, lets the fleet finish the plan, and shows the outcome.
Whoever claims `parser` first is killed in the middle of it; whoever claims `samples` first takes longer than its lease.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from typing import TYPE_CHECKING

from dibs.core.errors import LostLock
from dibs.core.lifecycle import Verb
from dibs.core.plan import parse_yaml
from dibs.core.task import Actor, Status
from dibs.desk import Desk
from dibs.stores.opening import open_store

if TYPE_CHECKING:
    from dibs.core.task import Claimed

PLAN = """
spec: csv-import
tasks:
  - {id: columns,  title: Agree on the columns of an import file, p: 1}
  - {id: samples,  title: Collect real files from three customers, p: 1}
  - {id: limits,   title: Decide how large a file may be}
  - {id: parser,   title: Read CSV into rows, deps: [columns], p: 0}
  - {id: form,     title: Build the upload form, deps: [columns, limits]}
  - {id: checks,   title: Check rows and name what is wrong, deps: [columns]}
  - {id: charsets, title: Recognise how a file is encoded, deps: [samples, parser]}
  - {id: doubles,  title: Find rows that are there already, deps: [parser]}
  - {id: endpoint, title: Accept uploads over HTTP, deps: [parser, checks, limits]}
  - {id: progress, title: Show how far an import has got, deps: [form, endpoint]}
  - {id: speed,    title: Import 100 000 rows in a minute, deps: [endpoint, doubles]}
  - {id: manual,   title: Write the page for the manual, deps: [form]}
  - {id: trial,    title: Run the customers' files from end to end, deps: [progress, charsets, doubles]}
  - {id: release,  title: Ship it, deps: [trial, speed, manual]}
"""
FLEET = ("ann", "bob", "bob", "cleo")  # a name is only a label: two may share it
LEASE = timedelta(seconds=3)
KILLED_AT, LATE_AT = "parser", "samples"


def say(who: str, what: str) -> None:
    print(f"  {who:<10} {what}", flush=True)


# What every worker does


def work(url: str, name: str) -> int:
    """Claim, work, finish and claim the next, until nothing is left to do. The run is this process's number."""
    me, run = f"{name}/{os.getpid()}", str(os.getpid())
    with Desk(open_store(url), by=Actor(name, run)) as desk:
        while not finished(desk):
            claims = tuple(desk.claim(name, run=run, lease=LEASE))
            while claims:
                claims = work_on(claims[0], desk, me)
            time.sleep(0.1)  # nothing is ready: wait for the others
    return 0


def work_on(claimed: Claimed, desk: Desk, me: str) -> tuple[Claimed, ...]:
    """One task; the value is what was claimed next, in the same transaction in which this one was finished."""
    task, lease = claimed.task, claimed.task.lease
    if lease is None:
        return ()
    before = ", ".join(handoff.id for handoff in claimed.handoffs)
    again = f"  (attempt {lease.attempt}: the last lease ran out)" if lease.attempt > 1 else ""
    say(me, f"claims   {task.id:<9} {task.title}" + (f"  [builds on {before}]" if before else "") + again)
    too_long = lease.attempt == 1 and task.id in {KILLED_AT, LATE_AT}
    time.sleep(LEASE.total_seconds() * 1.5 if too_long else 0.6 + len(task.title) / 60)
    then = desk.next_request(lease.agent, lease=LEASE, run=lease.run)
    try:
        moved = desk.move(Verb.DONE, task.id, token=lease.token, result=f"{task.id}: finished by {me}", then=then)
    except LostLock as error:
        say(me, f"REFUSED  {error.code}: {error.message}")
        return ()
    say(me, f"finishes {task.id}" + (f", now ready: {', '.join(moved.readied)}" if moved.readied else ""))
    return moved.next


def finished(desk: Desk) -> bool:
    counts = desk.counts().by_status
    return counts[Status.DONE] == sum(counts.values())


# What the one in charge does


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="small-fleet-") as folder:
        os.makedirs(os.path.join(folder, ".dibs"))
        url = f"sqlite:///{folder}/.dibs/dibs.db"
        with Desk(open_store(url, create=True), by=Actor("small_fleet")) as desk:
            planned = desk.apply_plan(parse_yaml(PLAN)).insert
            print(f"{len(planned)} tasks are planned; {', '.join(FLEET)} start, with leases of three seconds.\n")
            workers = [subprocess.Popen([sys.executable, __file__, url, name]) for name in FLEET]
            try:
                kill_whoever_claims(KILLED_AT, desk)
                statuses = [worker.wait(timeout=60) for worker in workers]
            finally:
                for worker in workers:
                    worker.kill()
        clean = {name: value for name, value in os.environ.items() if not name.startswith("DIBS_")}
        for command in ("graph", "stats", "doctor --deep"):
            print(f"\n$ dibs {command}", flush=True)
            subprocess.run([sys.executable, "-m", "dibs", *command.split()], cwd=folder, env=clean, check=True)
    return 0 if sorted(statuses) == [-signal.SIGKILL, 0, 0, 0] else 1


def kill_whoever_claims(task: str, desk: Desk) -> None:
    for _ in range(400):
        lease = desk.get(task).lease
        if lease is not None and lease.run is not None:
            time.sleep(0.2)  # in the middle of it
            os.kill(int(lease.run), signal.SIGKILL)
            say(f"{lease.agent}/{lease.run}", f"KILLED   while working on {task}; its lease runs out by itself")
            return
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(work(*sys.argv[1:]) if len(sys.argv) > 1 else main())
