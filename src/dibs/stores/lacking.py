"""What a store answers that has no place for vectors and settings, and declares so. Of those there is more than one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from dibs.core.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dibs.core.task import Actor, Json
    from dibs.core.vectors import Vector
    from dibs.stores.port import Neighbours

_VECTORS = "there is no place in it for vectors"
_SETTINGS = "there is no place in it for settings"


class WithoutVectorsAndSettings:
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


def refuse(why: str) -> NoReturn:
    raise Unsupported(f"This store cannot do that: {why}.")
