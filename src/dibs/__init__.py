"""dibs hands out work to fleets of AI agents: one task, one holder, in the right order.

    with dibs.open() as desk:
        desk.add("Write the parser", id="parser")
        for claim in desk.work(agent="ann"):
            with claim:
                claim.result = build(claim.task, claim.inputs)

`dibs.aio` is the same for asyncio. The names below are the public API; everything else in the package is private.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from dibs import aio as aio
    from dibs.api import Desk as Desk
    from dibs.api import open as open  # noqa: A004 - as in `dibs.open`
    from dibs.claims import Claim as Claim
    from dibs.core.errors import AlreadyExists as AlreadyExists
    from dibs.core.errors import AmbiguousId as AmbiguousId
    from dibs.core.errors import Changed as Changed
    from dibs.core.errors import CycleDetected as CycleDetected
    from dibs.core.errors import DibsError as DibsError
    from dibs.core.errors import Held as Held
    from dibs.core.errors import IllegalMove as IllegalMove
    from dibs.core.errors import IncompleteSubtasks as IncompleteSubtasks
    from dibs.core.errors import InvalidInput as InvalidInput
    from dibs.core.errors import LostLock as LostLock
    from dibs.core.errors import NoStore as NoStore
    from dibs.core.errors import NotForYou as NotForYou
    from dibs.core.errors import NotFound as NotFound
    from dibs.core.errors import NothingReady as NothingReady
    from dibs.core.errors import OverLimit as OverLimit
    from dibs.core.errors import PlanInvalid as PlanInvalid
    from dibs.core.errors import Refused as Refused
    from dibs.core.errors import RuleBroken as RuleBroken
    from dibs.core.errors import StoreBusy as StoreBusy
    from dibs.core.errors import StoreError as StoreError
    from dibs.core.errors import StoreUnavailable as StoreUnavailable
    from dibs.core.errors import Unsupported as Unsupported
    from dibs.core.errors import Waiting as Waiting
    from dibs.core.events import Event as Event
    from dibs.core.fields import Filter as Filter
    from dibs.core.graph import Graph as Graph
    from dibs.core.plan import PlanChanges as PlanChanges
    from dibs.core.task import Lease as Lease
    from dibs.core.task import Link as Link
    from dibs.core.task import LinkKind as LinkKind
    from dibs.core.task import ServiceClass as ServiceClass
    from dibs.core.task import Status as Status
    from dibs.core.task import Task as Task
    from dibs.stores.port import Moved as Moved
    from dibs.stores.reports import Counts as Counts
    from dibs.stores.reports import Neighbours as Neighbours

# module → the public names it has; each is imported when it is first used, so that a cold `dibs claim` loads none
_PUBLIC = {
    "dibs.api": ("Desk", "open"),
    "dibs.claims": ("Claim",),
    "dibs.core.errors": (
        "AlreadyExists", "AmbiguousId", "Changed", "CycleDetected", "DibsError", "Held", "IllegalMove",
        "IncompleteSubtasks", "InvalidInput", "LostLock", "NoStore", "NotForYou", "NotFound", "NothingReady",
        "OverLimit", "PlanInvalid", "Refused", "RuleBroken", "StoreBusy", "StoreError", "StoreUnavailable",
        "Unsupported", "Waiting",
    ),
    "dibs.core.events": ("Event",),
    "dibs.core.fields": ("Filter",),
    "dibs.core.graph": ("Graph",),
    "dibs.core.plan": ("PlanChanges",),
    "dibs.core.task": ("Lease", "Link", "LinkKind", "ServiceClass", "Status", "Task"),
    "dibs.stores.port": ("Moved",),
    "dibs.stores.reports": ("Counts", "Neighbours"),
}  # fmt: skip

__all__ = [*(name for names in _PUBLIC.values() for name in names), "__version__"]  # noqa: PLE0604 - all are texts


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "aio":
        return import_module("dibs.aio")
    for module, names in _PUBLIC.items():
        if name in names:
            value: object = getattr(import_module(module), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'dibs' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*__all__, "aio"])
