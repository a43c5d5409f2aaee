"""A wheel of this tree, installed where nothing else is, and the distributions that one extra asks for beside it."""

from __future__ import annotations

import ensurepip
import os
import subprocess
import sys
import sysconfig
import venv
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from docs.pages import ROOT


def build(kind: str, folder: Path) -> Path:
    """By the backend that pip would use, without fetching it."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=1800)
    (made,) = folder.iterdir()
    return made


class Place:
    """A new environment into which pip has installed only the wheel."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        venv.create(folder, with_pip=False, symlinks=True)
        self.bin = folder / "bin"
        self.site = next(folder.glob("lib/python*/site-packages"))
        pip = next(_wheels_of_python().glob("pip-*.whl"))
        install = [
            sys.executable,
            "-m",
            "pip",
            "--python",
            str(self.bin / "python"),
            "install",
            "--quiet",
            "--no-index",
        ]
        subprocess.run(
            [*install, "--no-index", "--no-deps", "--no-compile", "--disable-pip-version-check", str(wheel)],
            env=os.environ | {"PYTHONPATH": str(pip)},
            check=True,
            timeout=1800,
        )

    def run(self, *words: str, folder: Path, beside: Path | None = None) -> subprocess.CompletedProcess[str]:
        """A program of this environment, or its Python, in a folder; `beside` is where more may be imported from."""
        kept = {"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(folder), "USER": "ann", "PYTHONNOUSERSITE": "1"}
        return subprocess.run(
            [self.bin / words[0], *words[1:]],
            cwd=folder,
            env=kept | ({"PYTHONPATH": str(beside)} if beside else {}),
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )


def _wheels_of_python() -> Path:
    """Python brings pip along; some distributions keep it elsewhere."""
    elsewhere: str | None = sysconfig.get_config_var("WHEEL_PKG_DIR")
    return Path(elsewhere) if elsewhere else Path(ensurepip.__file__).parent / "_bundled"


def distributions(extra: str) -> set[str]:
    """What an extra of ours brings, and all that those need here."""
    found: set[str] = set()
    wanted = [("dibs", extra)]
    while wanted:
        name, asked = wanted.pop()
        for need in map(Requirement, metadata.requires(name) or ()):
            if need.marker is not None and not need.marker.evaluate({"extra": asked}):
                continue
            wanted += [(need.name, each) for each in ("", *need.extras) if each or need.name not in found]
            found.add(need.name)
    return found


def linked(names: set[str], folder: Path) -> Path:
    """A folder from which these can be imported, and no others."""
    folder.mkdir()
    found = [(metadata.distribution(name).locate_file(""), metadata.files(name) or ()) for name in names]
    tops = {file.parts[0]: Path(str(root)) for root, files in found for file in files}
    for top, root in tops.items():
        if top not in {"..", "__pycache__"}:
            (folder / top).symlink_to(root / top)
    return folder
