"""What every test may use."""

from __future__ import annotations

import os
import signal
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from support.scratch import in_memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from support.neo4j import Order

in_memory()
os.environ.pop("NEO4J_URI", None)  # a server of the tester, which dibs would use in tests without a project

# A shell's background job ignores Ctrl-C, and under nohup SIGHUP; programs that tests signal would ignore them too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

settings.register_profile(
    "dibs",
    max_examples=int(os.environ.get("DIBS_EXAMPLES", "50")),
    deadline=None,  # these machines are shared; a slow example is not a failure
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    derandomize="DIBS_EXAMPLES" not in os.environ,  # `make torture` looks for new examples
)
settings.load_profile("dibs")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Start slow tests first, so that the run does not end with them."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    if getattr(config.option, "loadgroup", False):
        for item in items:
            _say_its_group(item)


def _say_its_group(item: pytest.Item) -> None:
    """Run the tests of a group in one process, by a suffix of their ids.

    pytest-xdist 3.8 sets it where pytest 9.2 no longer looks (pytest-xdist issue 1386).
    """
    marker = item.get_closest_marker("xdist_group")
    if marker is None or item.nodeid.endswith(end := f"@{marker.args[0]}"):
        return
    item._id = type(item.id).parse(item.nodeid + end)
    if not item.nodeid.endswith(end):
        raise pytest.UsageError("tests cannot be kept together in groups with this pytest: see tests/conftest.py")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The skipped tests, with a line for each reason."""
    skipped = terminalreporter.stats.get("skipped", ())
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    if not reasons:
        return
    terminalreporter.section("left out")
    for reason, tests in reasons.most_common():
        terminalreporter.line(f"{tests:5} {'test ' if tests == 1 else 'tests'}  {reason}")
    terminalreporter.line("On Debian, .ci/run installs what is missing and leaves nothing out.")


_orders: list[Order] = []


def pytest_configure(config: pytest.Config) -> None:
    """Start the shared servers for other test processes, and pass on their addresses."""
    starts_others = config.getoption("numprocesses", None) and not hasattr(config, "workerinput")
    if starts_others and not os.environ.get("DIBS_TEST_NEO4J"):
        from support.neo4j import Order

        _orders.append(Order())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(ids: Sequence[str]) -> None:
    """Known before the first test begins: whether any of them is about Neo4j."""
    if any("neo4j" in test for test in ids):
        for order in _orders:
            order.place()


def pytest_unconfigure() -> None:
    while _orders:
        _orders.pop().close()
