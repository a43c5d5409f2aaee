"""The clock of `dibs.testing`, under the name that the tests know."""

from __future__ import annotations

from dibs.testing import Clock

__all__ = ["Clock"]
