"""The software bill of materials of a release: CycloneDX 1.6, written to the file named.

    python tools/sbom.py build/sbom.cdx.json

It lists what `pip install 'dibs[all]'` brings, in the versions of requirements.txt. Dependencies of the base install
are required, those of extras are optional.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]

_PIN = re.compile(r"([A-Za-z0-9._-]+)==(\S+)")
_VIA = re.compile(r"^ +#(?: via)? +(?:via +)?([A-Za-z0-9._-]+)")
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_NOT_SHIPPED = frozenset({"dev", "testing", "all"})


class Pins(NamedTuple):
    """The pinned versions, and for each package what it needs."""

    versions: dict[str, str]
    needs: dict[str, set[str]]


def pins_of(text: str) -> Pins:
    """Read a requirements file with the comments that say what each package is there for."""
    versions: dict[str, str] = {}
    needs: dict[str, set[str]] = {}
    name = ""
    for line in text.splitlines():
        if found := _PIN.match(line):
            name = found[1].lower()
            versions[name] = found[2]
        elif name and (by := _VIA.match(line)):
            needs.setdefault(by[1].lower(), set()).add(name)
    return Pins(versions, needs)


def closure(roots: set[str], pins: Pins) -> set[str]:
    found: set[str] = set()
    waiting = [*roots]
    while waiting:
        if (name := waiting.pop()) not in found and name in pins.versions:
            found.add(name)
            waiting += pins.needs.get(name, ())
    return found


def sbom(root: Path) -> dict[str, Any]:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = re.findall(
        r'^__version__ = "(.+)"$', (root / "src/dibs/__init__.py").read_text(encoding="utf-8"), re.MULTILINE
    )[0]
    pins = pins_of((root / "requirements.txt").read_text(encoding="utf-8"))
    base = _names(project["dependencies"])
    extras = {
        name: _names(given) for name, given in project["optional-dependencies"].items() if name not in _NOT_SHIPPED
    }
    required, shipped = closure(base, pins), closure(base.union(*extras.values()), pins)
    own = f"pkg:pypi/dibs@{version}"
    refs = {name: f"pkg:pypi/{name}@{pins.versions[name]}" for name in sorted(shipped)}
    direct = sorted(base.union(*extras.values()) & shipped)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": _component("dibs", version, own) | {"type": "application"}},
        "components": [
            _component(name, pins.versions[name], ref) | {"scope": "required" if name in required else "optional"}
            for name, ref in refs.items()
        ],
        "dependencies": [
            {"ref": own, "dependsOn": [refs[name] for name in direct]},
            *(
                {"ref": ref, "dependsOn": [refs[each] for each in sorted(pins.needs.get(name, ())) if each in refs]}
                for name, ref in refs.items()
            ),
        ],
    }


def _names(requirements: list[str]) -> set[str]:
    return {found[0].lower() for each in requirements if (found := _NAME.match(each))}


def _component(name: str, version: str, ref: str) -> dict[str, Any]:
    return {"type": "library", "bom-ref": ref, "name": name, "version": version, "purl": ref}


def main() -> int:
    if len(sys.argv) != 2:  # noqa: PLR2004 - the file
        print("usage: python tools/sbom.py FILE")
        return 2
    path = Path(sys.argv[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(sbom(ROOT), indent=2) + "\n", encoding="utf-8")
    print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
