"""Output of a worker's command: stored while it runs, bounded, and without secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from dibs.core import output
from dibs.core.errors import StoreUnavailable
from dibs.fleet.output import Mask, OutputRecorder, secrets_in
from support.workers import shell, until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.core.output import OutputPage
    from support.workers import Place

SECRETS = ("abcabcabd", "abcabc-and-more", 'quo"ted\\secret', "first line\nsecond line")


def page(place: Place, task: str = "a", attempt: int | None = None) -> OutputPage:
    with place.desk() as desk:
        return desk.output(task, attempt=attempt)


def text(found: OutputPage) -> str:
    return "".join(piece.text for piece in found.pieces)


def fed(mask: Mask, pieces: Sequence[bytes]) -> str:
    return b"".join([*map(mask.feed, pieces), mask.finish()]).decode(errors="replace")


WORDS = st.sampled_from([*SECRETS, "abcabc", "abc", "ab", "first line", " ", "x\n", "é", 'quo\\"ted\\\\secret'])


@given(st.lists(WORDS, max_size=8), st.data())
def test_secret_split_between_pieces_is_masked(words: list[str], data: st.DataObject) -> None:
    raw = "".join(words).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=6)))
    pieces = [raw[start:end] for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    shown = fed(Mask(SECRETS), pieces)
    for secret in (*SECRETS[:3], "first line", "second line"):
        assert secret not in shown
    if not any(secret in "".join(words) for secret in ("abc", "quo", "line")):
        assert shown == raw.decode()


@given(st.integers(0, 40), st.integers(0, 9))
def test_end_of_a_secret_after_a_gap_is_dropped(skipped: int, held: int) -> None:
    secret = b"s3cretvalue-0123456789"
    mask = Mask([secret.decode()])
    before = mask.feed(b"x " + secret[:held]) + mask.gap()
    after = mask.feed(secret[skipped:] + b" " * len(secret) + b"visible") + mask.finish()
    assert b"0123456789" not in before + after
    assert len(before) <= len(b"x ") + 5
    assert after.endswith(b"visible")


def test_values_of_secret_variables_and_passwords_in_urls_are_secrets() -> None:
    variables = {
        "GITHUB_TOKEN": "token-1", "API_KEY": "key-22", "KEY": "key-33", "client_secret": "secret-4",
        "PGPASSWORD": "password-5", "DIBS_STORE": "postgresql://user:password-6@host/db",
        "MONKEY": "banana", "HOME": "/home/ann", "PROXY": "http://host:8080/path",
    }  # fmt: skip
    assert set(secrets_in(variables)) == {"token-1", "key-22", "key-33", "secret-4", "password-5", "password-6"}
    assert Mask(secrets_in(variables)).whole("token-1 banana password-6") == "*** banana ***"
    assert Mask(["short", ""]).whole("short words stay") == "short words stay"


def test_output_is_kept_while_the_command_runs_without_its_secrets(anywhere: Place) -> None:
    anywhere.add("a")
    script = """
        echo "my token is $DIBS_TOKEN"; printf 'half of it: s3cret-'; touch half
        while [ ! -e go ]; do sleep 0.05; done
        echo "in-two é"; echo "and $MY_PASSWORD" >&2
    """
    one = anywhere.work("--once", *shell(script), MY_PASSWORD="s3cret-in-two")  # noqa: S106 - no secret
    if "neo4j" in anywhere.url:
        (anywhere.folder / "go").touch()
        assert one.leaves() == 0
        with anywhere.desk() as desk:
            assert not desk.has_output
        return
    until(lambda: "half of it: " in text(page(anywhere)), lambda: one.said)
    assert not page(anywhere).over
    (anywhere.folder / "go").touch()
    assert one.leaves() == 0
    shown = text(page(anywhere))
    assert shown.startswith("my token is ***\nhalf of it: *** é\n")
    assert "and ***\n" in shown
    assert page(anywhere).over
    assert "s3cret" not in str(anywhere.task("a").result)


def test_flood_of_output_keeps_head_and_tail_and_few_appends(place: Place) -> None:
    place.add("a")
    script = "echo first; head -c 30000000 /dev/zero | tr '\\0' x; echo; echo last"
    assert place.worked("--once", *shell(script)).status == 0
    found = page(place)
    assert text(found).startswith("first\n")
    assert text(found).endswith("\nlast\n")
    assert found.end == 30_000_012
    assert len(text(found)) <= output.HEAD + output.TAIL + 2 * output.PIECE
    assert len(found.pieces) <= 2 * (output.HEAD + output.TAIL) // output.PIECE


def test_each_attempt_has_its_own_output(place: Place) -> None:
    place.add("a", max_retries=3)
    script = 'echo "this is attempt $DIBS_ATTEMPT"; [ "$DIBS_ATTEMPT" = 2 ]'
    assert place.worked("--until-empty", "--retry-in", "0s", *shell(script)).status == 0
    assert [text(page(place, attempt=number)) for number in (1, 2)] == ["this is attempt 1\n", "this is attempt 2\n"]


def test_store_without_an_answer_delays_only_output(place: Place) -> None:
    place.add("a")
    troubles: list[str] = []
    with place.desk() as desk:
        (claimed,) = desk.claim("ann")
        lease = claimed.task.lease
        assert lease is not None
        append, away = desk.append_output, [True]

        def sometimes(ref: str, token: str, start: int, said: str) -> int:
            if away[0]:
                raise StoreUnavailable("The store is away.")
            return append(ref, token, start, said)

        desk.append_output = sometimes  # type: ignore[method-assign, assignment]
        recorder = OutputRecorder(desk, "a", lease.token, Mask(()), troubles.append)
        recorder.add(0, b"one\n")
        recorder.add(0, b"two\n")
        away[0] = False
        recorder.add(5, b"three\n")
        recorder.flush()
        assert desk.output("a").pieces == ((0, "one\ntwo\n"), (13, "three\n"))
    assert troubles == ["its output cannot be kept now: The store is away."]
