"""All tests of the suite in one class."""

from __future__ import annotations

from .adding import AddingTests, TermsTests
from .amending import AmendingTests
from .capabilities import CapabilitiesTests, ErrorsTests, WaitingTests
from .claiming import ClaimingTests, FilterTests, OrderTests
from .consequences import ConsequencesTests
from .differential import DifferentialTests
from .events import EventsTests, PruningTests
from .fleet import AgentsTests, EnrolmentTests
from .leases import LeasesTests, OutputTests
from .links import GraphTests, LinksTests
from .looking import LookingTests, PagesTests
from .moves import BatchesTests, MovesTests
from .optional_parts import SettingsTests, VectorsTests
from .plans import PlansTests
from .transfer import TransferTests


class StoreConformance(
    AddingTests, TermsTests, AmendingTests, CapabilitiesTests, ErrorsTests, WaitingTests, ClaimingTests, OrderTests,
    ConsequencesTests, DifferentialTests, EventsTests, PruningTests, FilterTests, AgentsTests,
    EnrolmentTests, LeasesTests,
    GraphTests, LinksTests, LookingTests, PagesTests, BatchesTests, MovesTests, OutputTests, PlansTests, SettingsTests,
    TransferTests, VectorsTests,
):  # fmt: skip
    """All tests of the suite. Define `make_store` in a class of your own whose name begins with Test."""
