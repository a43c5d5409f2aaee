"""The pages on the files of a vault and the properties of a Notion database say what the code's tables say."""

from __future__ import annotations

import re

import pytest

from dibs.stores.notion.layout import LAYOUTS, Layout
from dibs.stores.vault import places, reading
from docs.test_reference import coded, first_cells, page, rows, sections


def test_every_key_of_a_vaults_file_is_listed() -> None:
    found = sections(page("vault-files.md"))
    for heading, fields in (("Keys", reading.FIELDS), ("Keys of the lease", reading.LEASE_FIELDS)):
        told = [(*coded(cells[0]), *coded(cells[1])) for cells in rows(found[heading])[1:]]
        assert told == [(key, field) for field, key, _, _ in fields]
    assert {name for heading in found if "eys" in heading for name in first_cells(found[heading])} == reading.OURS


def test_vault_folders_are_documented() -> None:
    told = {coded(cells[0])[0]: coded(cells[1]) for cells in rows(sections(page("vault-files.md"))["Folders"])[1:]}
    assert set(told) == set(places.TASK_FOLDERS)
    for folder, words in told.items():
        means = {status for status, place in places.FOLDER_OF.items() if place == folder}
        assert words[0] == places.PLAIN[folder]
        assert {*words} - {"status"} == means


@pytest.mark.parametrize("known", LAYOUTS.values(), ids=list(LAYOUTS))
def test_every_property_of_a_layout_is_listed(known: Layout) -> None:
    text = sections(page("notion-properties.md"))[known.name]
    told = [(coded(a)[0], tuple(b.split(", ")), coded(c)[0], d == "needed") for a, b, c, d in rows(text)[1:]]
    assert told == [(each.name, each.types, field, each.required) for field, each in known.properties.items()]
    assert re.findall(r"`(\w+)` is (\w+)", text) == [(word, status) for status, word in known.words.items()]
