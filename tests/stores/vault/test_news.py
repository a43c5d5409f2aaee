"""What other processes have done since one's last turn is learnt in one go, however it hangs together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.lifecycle import Verb
from dibs.core.task import Actor, Edit, Link

from .folder import SCOPE, add, hold, move

if TYPE_CHECKING:
    from .folder import Folder


def test_link_read_while_a_change_is_processed_counts(folder: Folder) -> None:
    """Read for the sake of b, which waits for a, c turns out to wait for a as well."""
    with folder.open(create=True) as here, folder.open() as there:
        add(here, "a", "b", "c")
        token = hold(here, "ann", "b")
        here.link(SCOPE, [Link("b", "a"), Link("c", "b")], Actor())
        move(there, Verb.DONE, "b", token)
        hold(there, "bob", "c")
        there.link(SCOPE, [Link("c", "a")], Actor())
        there.amend(SCOPE, "a", Edit(title="Changed"), Actor())
        assert {task.id: task.blockers for task in here.graph(SCOPE, finished=True).tasks} == {"a": 0, "b": 1, "c": 1}
        assert here.check(fix=False) == []
