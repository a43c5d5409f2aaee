"""The TypeScript client of the docs, made from the server's description by a generator from npm, compiled and run.

It downloads packages, so it runs with `make torture` only.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

from dibs.serve.app import openapi
from support.http import Server, new_store

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "clients.md"
PACKAGES = ("openapi-fetch@0.13", "openapi-typescript@7", "typescript@5", "@types/node@20")
COMPILE = "npx tsc --strict --target es2022 --module nodenext --moduleResolution nodenext --skipLibCheck client.ts"


def test_the_client_of_the_docs_compiles_and_finishes_a_task(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text(json.dumps({"private": True, "type": "module"}))
    (tmp_path / "openapi.json").write_text(json.dumps(openapi()))
    [client] = re.findall(r"^```ts\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    (tmp_path / "client.ts").write_text(client)
    server = Server(new_store(tmp_path))
    try:
        ran("npm install --no-audit --no-fund", *PACKAGES, folder=tmp_path)
        ran("npx openapi-typescript openapi.json -o schema.d.ts", folder=tmp_path)
        ran(COMPILE, folder=tmp_path)
        assert ran("node client.js", folder=tmp_path, DIBS_STORE=server.url).endswith(" is done\n")
    finally:
        server.end()


def ran(command: str, *words: str, folder: Path, **variables: str) -> str:
    done = subprocess.run(
        [*command.split(), *words],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
