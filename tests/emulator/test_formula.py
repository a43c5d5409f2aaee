"""The language of formulas."""

from __future__ import annotations

from typing import Any

import pytest

from dibs.lab.emulator.formulas import names_in, parsed
from dibs.lab.emulator.model import ApiError

ROW: dict[str, Any] = {"Status": "DONE", "Count": 3, "Nothing": None, "Ticked": True, "Words": "a b"}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ('prop("Status") == "DONE"', True),
        ('prop("Status") != "DONE" and prop("Status") != "CANCELED"', False),
        ('not (prop("Status") == "DONE" or prop("Status") == "CANCELED")', False),
        ('not(prop("Ticked"))', False),
        ('!prop("Ticked") || prop("Ticked") && true', True),
        ('or(prop("Status") == "OPEN", and(prop("Ticked"), true))', True),
        ('if(prop("Count") > 2, "many", "few")', "many"),
        ('prop("Count") >= 4 ? "many" : prop("Count") <= 3 ? "few" : "none"', "few"),
        ("1 + 2 * 3 - -4", 11),
        ("(1 + 2) * 3 % 5 / 2", 2),
        ('"a" + 1', "a1"),
        ('concat("a", true, prop("Nothing"))', "atrue"),
        ('empty(prop("Nothing")) and not empty(prop("Words"))', True),
        ('length(prop("Words"))', 3),
        ('contains(prop("Words"), "b")', True),
        ('prop("Nothing") > 1', False),
        ('"say \\"hi\\""', 'say "hi"'),
        ("round(2.4) == 2 and abs(-2) == 2 and max(1, 2) == 2", True),
        ('toNumber("4") == 4', True),
    ],
)
def test_an_expression_has_its_value(expression: str, value: object) -> None:
    assert parsed(expression)(ROW.get) == value


@pytest.mark.parametrize("expression", ["", "1 +", "(1", "frobnicate(1)", "prop(", "1 1", "#", "and", 'if(true "x")'])
def test_unreadable_input_is_refused(expression: str) -> None:
    with pytest.raises(ApiError) as caught:
        parsed(expression)
    assert caught.value.code == "validation_error"


def test_the_properties_asked_for_are_known() -> None:
    assert names_in('prop("A") + prop("B C")') == ["A", "B C"]
