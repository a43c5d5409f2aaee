"""A worker and its task: the command's input, and the use of its output and exit status."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from dibs.core.task import Draft, Link, Status
from support.workers import PATIENCE, lines_of, python, read_json, shell, until

if TYPE_CHECKING:
    from support.workers import Place


def test_command_gets_task_token_and_inputs(place: Place) -> None:
    place.add("plan", "build", links=(Link("build", "plan"),), description="All of it.", steps=("one", "two"))
    script = """
        cp "$DIBS_TASK_FILE" "$DIBS_TASK_ID.task"; cp "$DIBS_INPUTS_FILE" "$DIBS_TASK_ID.results"
        cp "$DIBS_PROMPT_FILE" "$DIBS_TASK_ID.prompt"; cat > "$DIBS_TASK_ID.stdin"
        env | grep DIBS_ > "$DIBS_TASK_ID.env"; ls -ld "$(dirname "$DIBS_TASK_FILE")" > "$DIBS_TASK_ID.folder"
        dibs renew >&2 && echo '{"pages": 3}'
    """
    place.environ["PATH"] = f"{place.bin}:{place.environ['PATH']}"
    ended = place.worked("--until-empty", "--can", "x", *shell(script))
    assert ended.status == 0, ended.said
    given = read_json(place.folder / "build.task")
    assert given == read_json(place.folder / "build.stdin")
    assert (given["id"], given["title"], given["description"]) == ("build", "Task build", "All of it.")
    assert "token" not in json.dumps(given)
    assert read_json(place.folder / "build.results") == [
        {"id": "plan", "title": "Task plan", "result": {"pages": 3}, "artifacts": []}
    ]
    prompt = (place.folder / "build.prompt").read_text()
    for part in ("# Task build", "All of it.", "1. one", "### Task plan (plan)", '"pages": 3'):
        assert part in prompt
    told = dict(line.split("=", 1) for line in lines_of(place.folder / "build.env"))
    assert told["DIBS_STORE"] == place.url
    assert (told["DIBS_AGENT"], told["DIBS_SCOPE"], told["DIBS_ATTEMPT"]) == ("ann", "default", "1")
    assert (place.folder / "build.folder").read_text().startswith("drwx------")
    assert place.task("build").result == {"pages": 3}


def test_output_is_the_result(place: Place) -> None:
    says = {
        "object": "printf 'working\\n{\"a\": [1]}\\n'",
        "text": "printf 'first\\nsecond\\n'",
        "number": "echo 17",
        "broken": "printf 'open {\\n{\"a\": NaN}'",
        "silent": "true",
        "garbled": "printf 'caf\\351 \\000 ok'",
        "leaky": "echo my token is $DIBS_TOKEN",
    }
    assert place.worked("--until-empty", *place.scripts(says)).status == 0
    assert {name: place.task(name).result for name in says} == {
        "object": {"a": [1]},
        "text": "first\nsecond",
        "number": "17",
        "broken": 'open {\n{"a": NaN}',
        "silent": None,
        "garbled": "caf\ufffd  ok",
        "leaky": "my token is (token)",
    }


def test_failed_command_leaves_its_complaint_as_the_reason(place: Place) -> None:
    does = {
        "status": "echo one >&2; echo two >&2; exit 3",
        "signal": "kill -SEGV $$",
        "leaky": "echo $DIBS_TOKEN >&2; exit 1",
        "garbled": "printf 'caf\\351' >&2; exit 1",
        "late": "trap '' TERM; touch late; sleep 600",
    }
    spans = ("--lease", "3h", "--time-limit", "1h", "--grace", "0.2s")
    one = place.work("--until-empty", *spans, *place.scripts(does, max_retries=0))
    until((place.folder / "late").exists, lambda: one.said)
    place.clock.advance(hours=1)
    one.leaves()
    assert "failed status after" in one.said
    assert {place.task(name).status for name in does} == {Status.ESCALATED}
    reasons = {name: re.sub(r"after 36\d\d s", "after 3600 s", str(place.task(name).reason)) for name in does}
    assert reasons == {
        "status": "exit status 3: one\ntwo",
        "signal": "ended by SIGSEGV",
        "leaky": "exit status 1: (token)",
        "garbled": "exit status 1: caf\ufffd",
        "late": "it took longer than its time limit and was stopped after 3600 s",
    }


def test_failed_task_is_retried_after_its_pause(place: Place) -> None:
    """The next attempt gets the reason."""
    place.add("a")
    script = (
        'cat "$DIBS_PROMPT_FILE" > prompt-$DIBS_ATTEMPT; test "$DIBS_ATTEMPT" != 1 || { echo bad luck >&2; exit 1; }'
    )
    one = place.work("--retry-in", "1h", *shell(script))
    one.says("failed a")
    place.clock.advance(minutes=55)
    place.add("b")
    one.says("failed b")  # it looks for work, and does not claim a
    assert place.told("a") == ["claim", "fail"]
    place.clock.advance(minutes=5)
    one.says("done a")
    assert "Earlier attempts failed\n\n- exit status 1: bad luck" in (place.folder / "prompt-2").read_text()
    assert "Earlier" not in (place.folder / "prompt-1").read_text()


def test_task_that_cannot_be_finished_fails_with_a_reason(place: Place) -> None:
    place.add("whole")
    place.add("part", parent="whole", assigned_to="bob")
    place.worked("--once", *shell("true"))
    assert "could not be finished" in str(place.task("whole").reason)


def test_command_may_end_its_task(place: Place) -> None:
    ends = {"done": "done", "review": "review", "block": "blocked"}
    scripts = {verb: f"{place.bin}/dibs {verb} {'--reason x' * (verb == 'block')}; exit 1" for verb in ends}
    ended = place.worked("--until-empty", *place.scripts(scripts))
    for verb, status in ends.items():
        assert f"ended {verb} after" in ended.said
        assert f"its command left it {status}" in ended.said
        assert place.task(verb).status == status
        assert "fail" not in place.told(verb)


def test_slots_never_share_a_task(place: Place) -> None:
    place.add(*(f"t{number}" for number in range(12)))
    barrier = (
        "touch here-$DIBS_TASK_ID; while [ $(ls here-* | wc -l) -lt 3 ]; do sleep 0.02; done; echo $DIBS_TASK_ID >> log"
    )
    assert place.worked("--slots", "3", "--until-empty", *shell(barrier)).status == 0
    assert sorted(lines_of(place.folder / "log")) == sorted(f"t{number}" for number in range(12))
    assert {tuple(place.told(f"t{number}")) for number in range(12)} == {("claim", "done")}


def test_idle_slot_takes_tasks_unblocked_by_another(place: Place) -> None:
    place.add("a", "b", "c", links=(Link("b", "a"), Link("c", "a")))
    assert place.worked("--slots", "2", "--until-empty", *shell("sleep 0.3")).status == 0
    assert [place.task(name).status for name in "abc"] == [Status.DONE] * 3


def test_worker_takes_only_matching_tasks(place: Place) -> None:
    place.add("hard", requires=("drawing",))
    place.add("theirs", assigned_to="bob")
    assert place.worked("--once", *shell("true")).status == 4
    assert place.worked("--once", "--can", "drawing", *shell("true")).status == 0
    assert (place.task("hard").status, place.task("theirs").status) == (Status.DONE, Status.READY)


def test_worker_takes_tasks_of_any_scope(place: Place) -> None:
    with place.desk() as desk:
        desk.at("far").add([Draft("There", "a")])
        desk.at("away").add([Draft("Too", "a")])
    assert place.worked("--until-empty", "--any-scope", *shell("echo $DIBS_SCOPE >> log")).status == 0
    assert sorted(lines_of(place.folder / "log")) == ["away", "far"]


def test_new_work_wakes_an_idle_worker_on_every_store(anywhere: Place) -> None:
    one = anywhere.work("--slots", "2", *shell("echo '{\"n\": 1}'"))
    one.says("is at work")
    anywhere.add("a", "b", links=(Link("b", "a"),))
    until(lambda: anywhere.task("b").status is Status.DONE, lambda: one.said, PATIENCE)
    assert anywhere.task("b").result == {"n": 1}
    one.signal(15)
    assert one.leaves() == 0
    anywhere.nothing_runs()


def test_module_in_the_working_folder_is_not_imported(place: Place) -> None:
    for name in ("json", "dibs", "socket"):
        (place.folder / f"{name}.py").write_text("raise SystemExit('not yours')")
    place.add("a")
    assert place.worked("--once", *python("print('fine')")).said.count("done a") == 1
