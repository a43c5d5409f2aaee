"""A base install has no driver for PostgreSQL and no client for Notion: the error names the package to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

_WITHOUT = """
import sys
sys.modules[{module!r}] = None
from dibs.cli.main import main
sys.exit(main(["list", "--json", "--store", {url!r}]))
"""


@pytest.mark.parametrize(
    ("module", "url", "extra"),
    [
        ("psycopg2", "postgresql:///nowhere", "dibs[postgres]"),
        ("notion_client", f"notion://{'0' * 32}", "dibs[notion]"),
        ("httpx", f"notion://{'0' * 32}", "dibs[notion]"),
    ],
)
def test_missing_package_is_named_with_its_install_command(
    module: str, url: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTION_TOKEN", "ntn_some_token_of_ours")
    code = _WITHOUT.format(module=module, url=url)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 7
    assert '"MISCONFIGURED"' in ran.stdout
    assert f"pip install '{extra}'" in ran.stdout
    assert ran.stderr == ""
