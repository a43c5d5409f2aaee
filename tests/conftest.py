"""What every test may use."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

os.environ.pop("NEO4J_URI", None)  # somebody's own server, which dibs would use where a test has no project

settings.register_profile(
    "dibs",
    deadline=None,  # these machines are shared; a slow example is not a failure
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("dibs")
