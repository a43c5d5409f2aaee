"""Invalid requests are refused before they reach the store."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, cast

import pytest

from dibs.core.errors import (
    InvalidInput,
)
from dibs.core.lifecycle import Verb
from dibs.core.task import Draft, Edit, Holder, Link, LinkKind, Status
from dibs.desk import Desk
from dibs.stores.port import Capabilities

from .hands import HOUR

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.stores.port import Store

NAIVE = datetime(2030, 1, 1)  # noqa: DTZ001 - the missing zone is the mistake under test


class Untouchable:
    """A store that must not be asked anything."""

    capabilities = Capabilities(exclusive="strict", transactions=True)

    @property
    def vectors(self) -> Untouchable:
        return self

    settings = vectors

    def __getattr__(self, name: str) -> Callable[..., object]:
        def asked(*_args: object, **_more: object) -> object:
            raise AssertionError(f"the store was asked to {name}")

        return asked


REFUSED: dict[str, Callable[[Desk], object]] = {
    "no title": lambda desk: desk.add([Draft(" \t ", id="a")]),
    "a long title": lambda desk: desk.add([Draft("x" * 501, id="a")]),
    "a title of two lines": lambda desk: desk.add([Draft("a\nb", id="a")]),
    "a NUL in the description": lambda desk: desk.add([Draft("a", id="a", description="\0")]),
    "half a character": lambda desk: desk.add([Draft("a", id="a", description="\ud800")]),
    "an id with a space": lambda desk: desk.add([Draft("a", id="a b")]),
    "an id like an option": lambda desk: desk.add([Draft("a", id="-a")]),
    "a long id": lambda desk: desk.add([Draft("a", id="x" * 129)]),
    "born active": lambda desk: desk.add([Draft("a", id="a", status=Status.ACTIVE)]),
    "born done": lambda desk: desk.add([Draft("a", id="a", status=Status.DONE)]),
    "no number": lambda desk: desk.add([Draft("a", id="a", priority=math.nan)]),
    "a huge priority": lambda desk: desk.add([Draft("a", id="a", priority=1e10)]),
    "negative retries": lambda desk: desk.add([Draft("a", id="a", max_retries=-1)]),
    "no JSON": lambda desk: desk.add([Draft("a", id="a", extra={"k": math.inf})]),
    "a time without a zone": lambda desk: desk.add([Draft("a", id="a", not_before=NAIVE)]),
    "the second of two": lambda desk: desk.add([Draft("a", id="a"), Draft("", id="b")]),
    "a link to itself": lambda desk: desk.add([Draft("a", id="a")], [Link("a", "a", LinkKind.PARALLEL_OK)]),
    "a heavy link": lambda desk: desk.add([Draft("a", id="a")], [Link("a", "b", weight=2)]),
    "a sure link": lambda desk: desk.add([Draft("a", id="a")], [Link("a", "b", confidence=-1)]),
    "nobody": lambda desk: desk.claim(" "),
    "none": lambda desk: desk.claim("ann", count=0),
    "far too many": lambda desk: desk.claim("ann", count=1001),
    "too short": lambda desk: desk.claim("ann", lease=timedelta(seconds=0.5)),
    "no time at all": lambda desk: desk.claim("ann", lease=timedelta(0)),
    "a negative lease": lambda desk: desk.claim("ann", lease=-HOUR),
    "too long": lambda desk: desk.claim("ann", lease=timedelta(days=31)),
    "a blank capability": lambda desk: desk.claim("ann", can=[""]),
    "a blank run": lambda desk: desk.claim("ann", run=" "),
    "a person without a name": lambda desk: desk.claim("ann", holder=Holder.HUMAN),
    "the same twice": lambda desk: desk.claim("ann", refs=["a", "a"]),
    "next for nobody": lambda desk: desk.next_request(""),
    "next for no time": lambda desk: desk.next_request("ann", lease=timedelta(0)),
    "renewed for no time": lambda desk: desk.renew("a", "t", lease=timedelta(0)),
    "renewed too long": lambda desk: desk.renew("a", "t", lease=timedelta(days=31)),
    "a NUL in the reason": lambda desk: desk.move(Verb.FAIL, "a", reason="\0"),
    "no JSON result": lambda desk: desk.move(Verb.DONE, "a", result=math.nan),
    "too many artifacts": lambda desk: desk.move(Verb.DONE, "a", artifacts=["x"] * 1001),
    "a vector of nothing": lambda desk: desk.keep_vectors({"a": []}),
    "a vector of zeros": lambda desk: desk.keep_vectors({"a": [0.0, 0.0]}),
    "a vector with a hole": lambda desk: desk.keep_vectors({"a": [1.0, math.nan]}),
    "a vector for no id": lambda desk: desk.keep_vectors({"a b": [1.0]}),
    "like nothing": lambda desk: desk.similar([]),
    "none alike": lambda desk: desk.similar([1.0], limit=0),
    "too many alike": lambda desk: desk.similar([1.0], limit=1001),
    "more than alike": lambda desk: desk.similar([1.0], least=1.1),
    "alike by no number": lambda desk: desk.similar([1.0], least=math.nan),
    "a NUL to be like": lambda desk: desk.similar([1.0], "\0"),
    "a setting without a name": lambda desk: desk.configure({" ": 1}),
    "a setting of two lines": lambda desk: desk.configure({"a\nb": 1}),
    "a setting that is no JSON": lambda desk: desk.configure({"a": math.inf}),
    "failed until no zone": lambda desk: desk.move(Verb.FAIL, "a", not_before=NAIVE),
    "blocked until no zone": lambda desk: desk.move(Verb.BLOCK, "a", next_check_at=NAIVE),
    "a title edited away": lambda desk: desk.edit("a", Edit(title="")),
    "a priority edited away": lambda desk: desk.edit("a", Edit(priority=math.inf)),
    "edited to no zone": lambda desk: desk.edit("a", Edit(not_before=NAIVE)),
    "queued at no zone": lambda desk: desk.edit("a", Edit(queued_at=NAIVE)),
    "a nameless scope": lambda desk: desk.at(" "),
}


@pytest.mark.parametrize("asked", REFUSED)
def test_invalid_input_never_reaches_the_store(asked: str) -> None:
    with pytest.raises(InvalidInput):
        REFUSED[asked](Desk(cast("Store", Untouchable()), scope="home"))


def test_a_link_to_itself_is_refused_of_any_kind(fruit: Desk) -> None:
    for kind in LinkKind:
        with pytest.raises(InvalidInput):
            fruit.link([Link("apple", "ap", kind)])
    assert len(fruit.links("apple")) == 1


def test_values_reach_the_store_in_one_form(desk: Desk) -> None:
    (task,) = desk.add([Draft("  Tidy up \t", id="a", requires=("web", "gpu", "web"), priority=3.0, category=" x ")])
    assert (task.title, task.requires, task.category) == ("Tidy up", ("gpu", "web"), "x")
    assert (task.priority, type(task.priority)) == (3, int)
    edited = desk.edit("a", Edit(title=" New ", requires=("z", "a")))
    assert (edited.title, edited.requires) == ("New", ("a", "z"))
