"""Fetch the board's JavaScript modules from npm, by name and version, and put them where the board imports them.

Only their import lines are changed, from package names to files: a browser without a build step needs that. Their
licences come along. Run it after changing a version here; it needs npm.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from typing import NamedTuple

HOME = os.path.join(os.path.dirname(__file__), os.pardir, "src", "dibs", "serve", "board", "static", "vendor")


class Module(NamedTuple):
    """`file` of a package becomes `name` here."""

    package: str
    version: str
    file: str
    name: str


MODULES = (
    Module("preact", "11.2.0", "dist/preact.mjs", "preact.js"),
    Module("preact", "11.2.0", "hooks/dist/hooks.mjs", "hooks.js"),
    Module("@preact/signals-core", "1.14.5", "dist/signals-core.mjs", "signals-core.js"),
    Module("@preact/signals", "2.11.4", "dist/signals.mjs", "signals.js"),
    Module("htm", "3.1.1", "dist/htm.mjs", "htm.js"),
    Module("marked", "18.2.0", "lib/marked.esm.js", "marked.js"),
)
FILES = {"preact": "preact.js", "preact/hooks": "hooks.js", "@preact/signals-core": "signals-core.js"}


def main() -> None:
    os.makedirs(HOME, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        for module in MODULES:
            folder = unpacked(module, scratch)
            with open(os.path.join(folder, module.file), encoding="utf-8") as found:
                source = found.read()
            with open(os.path.join(HOME, module.name), "w", encoding="utf-8") as kept:
                kept.write(importing_files(source))
            licence = f"LICENSE.{module.package.removeprefix('@').replace('/', '-')}"
            shutil.copyfile(os.path.join(folder, "LICENSE"), os.path.join(HOME, licence))
            print(f"{module.name}: {module.package} {module.version}")


def unpacked(module: Module, scratch: str) -> str:
    order = ["npm", "pack", "--json", "--pack-destination", scratch, f"{module.package}@{module.version}"]
    answer = json.loads(subprocess.run(order, check=True, capture_output=True, text=True).stdout)
    packed = answer[0] if isinstance(answer, list) else next(iter(answer.values()))
    folder = os.path.join(scratch, module.name)
    name = packed["filename"].removeprefix("@").replace("/", "-")
    with tarfile.open(os.path.join(scratch, name)) as archive:
        archive.extractall(folder, filter="data")
    return os.path.join(folder, "package")


def importing_files(source: str) -> str:
    """Imports by file, and no pointer to a source map that is not here."""
    source = re.sub(r"(from\s*)\"([^\"]+)\"", lambda found: f'{found[1]}"./{FILES[found[2]]}"', source)
    return re.sub(r"\n?//# sourceMappingURL=.*\n?", "\n", source)


if __name__ == "__main__":
    main()
