"""Figures on the pages are those of the last measurements."""

from __future__ import annotations

import re

import pytest

from docs.pages import ROOT
from docs.test_reference import rows, sections

RESULTS = (ROOT / "bench" / "RESULTS.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("page", "heading"), [("README.md", "How fast it is"), ("docs/explanation/performance.md", "Results")]
)
def test_a_figure_was_measured(page: str, heading: str) -> None:
    table = rows(sections((ROOT / page).read_text(encoding="utf-8"))[heading])[1:]
    told = {
        figure
        for cells in table
        for cell in cells[1:]
        for figure in re.findall(
            r"\d[\d,.]*\d (?=tasks? a sec|by one|by sixteen|by eight|a second|ms|s;)|^[\d,]+$", cell
        )
    }
    assert len(told) > 5
    known = {float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?:\.\d+)?", RESULTS)}
    rounded = known | {round(number) for number in known} | {round(number, 1) for number in known}
    assert {figure for figure in told if float(figure.replace(",", "")) not in rounded} == set()
