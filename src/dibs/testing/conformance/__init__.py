"""The tests that every store has to pass, by subject. `dibs.testing.StoreConformance` has them all."""

from __future__ import annotations

import sys
from pkgutil import iter_modules

# Failed assertions show their values only in modules that pytest knows before they are imported.
if "pytest" in sys.modules:
    sys.modules["pytest"].register_assert_rewrite(*(f"{__name__}.{module.name}" for module in iter_modules(__path__)))
