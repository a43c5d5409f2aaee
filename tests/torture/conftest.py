"""What only `make torture` runs."""

from __future__ import annotations

import os

collect_ignore = [] if os.environ.get("DIBS_TORTURE") else ["test_power.py"]
