"""What only `make torture` runs."""

from __future__ import annotations

import os

collect_ignore = [] if os.environ.get("DIBS_TORTURE") else ["test_neo4j_disk.py", "test_power.py"]
