"""The end of a window, for any times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from dibs.chat.conversation.windows import Rule, Window, receive, span

START = datetime(2026, 1, 1, tzinfo=UTC)
RULE = Rule()
pauses = st.lists(st.floats(-30, 200), min_size=1, max_size=250).map(lambda gaps: [timedelta(seconds=g) for g in gaps])


def test_first_window_stays_open_for_45_seconds() -> None:
    window = receive(None, START, None, RULE).window
    assert window.closes_at == START + timedelta(seconds=45)
    assert not window.due(START + timedelta(seconds=44.9), RULE)
    assert window.due(window.closes_at, RULE)


@given(st.floats(0, 10_000))
def test_the_span_is_always_between_30_and_60_seconds(seconds: float) -> None:
    assert timedelta(seconds=30) <= span(timedelta(seconds=seconds), RULE) <= timedelta(seconds=60)


def test_window_adapts_to_typing_speed() -> None:
    for pause, wanted in ((2, 30), (15, 45), (25, 60)):
        window, rhythm, at = None, None, START
        for _ in range(40):
            _, window, rhythm = receive(window, at, rhythm, RULE)
            at += timedelta(seconds=pause)
        assert abs(span(rhythm, RULE) - timedelta(seconds=wanted)) < timedelta(seconds=1)


@given(pauses)
def test_no_message_is_lost_duplicated_or_late(gaps: list[timedelta]) -> None:
    window: Window | None = None
    rhythm, at, counted = None, START, 0
    for gap in gaps:
        at += gap
        closed, after, rhythm = receive(window, at, rhythm, RULE)
        if closed is not None:
            assert closed == window
            assert closed.due(max(at, closed.latest_at), RULE)
            counted += closed.messages
        assert after.messages <= RULE.most
        assert after.latest_at < after.closes_at
        window = after
    assert window is not None
    assert counted + window.messages == len(gaps)


def test_the_hundredth_message_fills_the_window() -> None:
    window, rhythm = None, None
    for _ in range(100):
        _, window, rhythm = receive(window, START, rhythm, RULE)
    assert window is not None
    assert window.due(START, RULE)
    assert receive(window, START, rhythm, RULE).closed == window
