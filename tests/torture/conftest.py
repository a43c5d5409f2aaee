"""What only `make torture` runs."""

from __future__ import annotations

import os

_LONG = ["test_neo4j_disk.py", "test_neo4j_import.py", "test_power.py", "test_typescript.py"]
collect_ignore = [] if os.environ.get("DIBS_TORTURE") else _LONG
if not os.environ.get("DIBS_TEST_AGENTS"):  # the folder of claude, codex and gemini, from npm
    collect_ignore.append("test_products.py")
