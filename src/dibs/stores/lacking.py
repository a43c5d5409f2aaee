"""What a store answers that has no place for vectors, settings and members, and declares so. There is more than one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from dibs.core.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dibs.core.errors import DibsError
    from dibs.core.fleet import Assignment, Member, Profile
    from dibs.core.task import Actor, Json, Task
    from dibs.core.vectors import Vector
    from dibs.stores.port import Neighbours

_VECTORS = "there is no place in it for vectors"
_MEMBERS = "there is no place in it for the members of a fleet; SQLite, PostgreSQL and Neo4j have one"
_SETTINGS = "there is no place in it for settings"


class WithoutExtras:
    """Those verbs of the port, each refused."""

    def keep_vectors(self, scope: str, vectors: Mapping[str, Vector | None]) -> None:  # noqa: ARG002
        refuse(_VECTORS)

    def vectors(self, scope: str, *, finished: bool) -> Mapping[str, Vector]:  # noqa: ARG002
        refuse(_VECTORS)

    def similar(
        self,
        scope: str,  # noqa: ARG002
        vector: Vector,  # noqa: ARG002
        text: str,  # noqa: ARG002
        limit: int,  # noqa: ARG002
        least: float,  # noqa: ARG002
        *,
        finished: bool,  # noqa: ARG002
    ) -> Neighbours:
        refuse(_VECTORS)

    def settings(self, scope: str) -> Mapping[str, Json]:  # noqa: ARG002
        refuse(_SETTINGS)

    def configure(self, scope: str, changes: Mapping[str, Json], by: Actor) -> Mapping[str, Json]:  # noqa: ARG002
        refuse(_SETTINGS)

    def enrol(self, profile: Profile) -> Member:  # noqa: ARG002
        refuse(_MEMBERS)

    def dismiss(self, agent: str) -> Member:  # noqa: ARG002
        refuse(_MEMBERS)

    def members(self) -> list[Member]:
        refuse(_MEMBERS)

    def assign(self, asked: Assignment, by: Actor) -> list[Task | DibsError]:  # noqa: ARG002
        refuse(_MEMBERS)


def refuse(why: str) -> NoReturn:
    raise Unsupported(f"This store cannot do that: {why}.")
