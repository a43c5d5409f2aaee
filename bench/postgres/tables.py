"""The race as a table, and the settings of the participants."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from bench.postgres import participants as who
from bench.postgres.throughput import WORKERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.postgres.options import Options
    from bench.postgres.participants import Participant
    from bench.postgres.throughput import Race


def _in_batches(size: int) -> tuple[Participant, ...]:
    floors = (who.FLOOR_BATCHES[size], who.TOLD_FLOORS[size])
    return (*floors, who.BATCHES[size], who.BATCHES_TOGETHER[size], *who.IN_BATCHES[size])


_GROUPS: tuple[tuple[str, tuple[Participant, ...]], ...] = (
    (
        "One at a time, two commits a job",
        (who.FLOOR, who.DRIVER_FLOORS[0], who.TOLD_FLOORS[1], who.APART, *who.ONE_AT_A_TIME),
    ),
    ("Finish and claim the next in one commit", (who.FLOOR_TOGETHER, who.DRIVER_FLOORS[1], who.TOGETHER)),
    *((f"Batches of {n}", _in_batches(n)) for n in (10, 100)),
    ("Without a limit", (who.DBOS_FREE,)),
)


_PREFACE = """\
{jobs:,} trivial jobs ({few:,} for those marked †, which a shorter queue favours), median of {rounds} round(s): jobs a
second, and in brackets the ratio to the floor of psycopg 3 measured just before and just after. Every job was counted:
done once, by one worker, and kept so by the participant's own tables, unless said otherwise."""


def throughput(race: Race, options: Options) -> str:
    parts = [_PREFACE.format(jobs=options.jobs, few=options.jobs // who.SLOW, rounds=options.rounds)]
    for title, members in _GROUPS:
        chosen = [one for one in members if one is who.FLOOR or options.match in one.name]
        if chosen:
            parts.append(f"#### {title}\n\n{_table(race, chosen)}")
    return "\n\n".join([*parts, _settings(options)])


def _table(race: Race, members: Sequence[Participant]) -> str:
    heads = " | ".join(f"W={workers}" for workers in WORKERS)
    lines = [f"| who | {heads} |", "|---|" + "---|" * len(WORKERS)]
    for one in members:
        cells = " | ".join(race.outcome(one, workers).cell() for workers in WORKERS)
        lines.append(f"| {one.name}{' †' if one.fewer > 1 else ''} | {cells} |")
    return "\n".join(lines)


def _settings(options: Options) -> str:
    chosen = [one for one in (who.FLOOR, *who.EVERYONE) if options.match in one.name]
    return "\n".join(("Each took part as it is fastest at its batch size:", "", *map(_setting, chosen)))


def _setting(participant: Participant) -> str:
    packages = (
        ", ".join(participant.environment.packages) or f"this checkout, psycopg2-binary=={version('psycopg2-binary')}"
    )
    return f"- {participant.name.replace('**', '')}: {packages}; {participant.settings}."
