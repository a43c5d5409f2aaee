"""MkDocs hooks: docs/README.md is the navigation, and internal pages are left out."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

INDEX = "README.md"

_ENTRY = re.compile(r"^(##+) (?P<heading>.+)|^- \[(?P<title>.+?)\]\((?P<path>[^)]+)\)", re.MULTILINE)
_COMMENT = re.compile(r"^<!--.*?-->\n", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(((?:\.\./)+[^)\s]+)\)")

Entry = dict[str, "str | list[Entry]"]


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    with open(os.path.join(config.docs_dir, INDEX), encoding="utf-8") as index:
        config.nav = [{"Home": INDEX}, *navigation(index.read())]
    return config


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - MkDocs names them
    return _LINK.sub(lambda link: _within(link, page.file.src_uri), _COMMENT.sub("", markdown))


def navigation(index: str) -> list[Entry]:
    """A section for each heading, with the pages that are listed under it and the sections below it."""
    top: list[Entry] = []
    open_sections = {1: top}
    here = top
    for found in _ENTRY.finditer(index):
        if found["heading"]:
            depth = len(found[1])
            here = []
            open_sections[depth - 1].append({found["heading"]: here})
            open_sections[depth] = here
        else:
            here.append({found["title"]: found["path"]})
    return top


def _within(link: re.Match[str], page: str) -> str:
    """A link to another page. A link into the repository becomes text."""
    target = os.path.normpath(os.path.join(os.path.dirname(page), link[2]))
    return link[1] if target.startswith("..") else link[0]
