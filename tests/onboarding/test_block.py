"""A block of ours in somebody's file: it comes and goes, and not one byte outside it is touched."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dibs.onboarding.block import MARKDOWN, TOML, Style, Unfit, find, with_block, without_block

BODY = "## Work\n\nClaim it.\n"
NEWER = "## Work\n\nClaim it first.\n"

# Files as they come: any line breaks, fences open and closed, something like our markers, and whatever else.
_PIECES = st.sampled_from(
    [
        "\n",
        "\r\n",
        "\r",
        "```\n",
        "````md\n",
        "~~~\n",
        "# Title\n",
        "text",
        " ",
        "\t",
        "<!-- x -->\n",
        "é🦀",
        "\x0c",
        "\x85",
        "\u2028",
    ]
)
TEXTS = st.lists(_PIECES | st.text(max_size=8), max_size=12).map("".join)


def _outside(text: str, style: Style) -> tuple[str, str]:
    there = find(text, style)
    assert there is not None
    return text[: there.start], text[there.end :]


@pytest.mark.parametrize("style", [MARKDOWN, TOML], ids=["markdown", "toml"])
@given(text=TEXTS)
def test_existing_text_is_kept_and_restored(text: str, style: Style) -> None:
    try:
        written = with_block(text, BODY, style)
    except Unfit:
        return
    assert written.startswith(text)
    assert with_block(written, BODY, style) == written, "a second time changes nothing"
    before, after = _outside(written, style)
    assert (before.startswith(text), after) == (True, "")
    assert without_block(written, style) == text


@given(text=TEXTS, above=TEXTS, below=TEXTS)
def test_later_text_around_the_block_is_kept(text: str, above: str, below: str) -> None:
    try:
        written = above + with_block(text, BODY, MARKDOWN) + below
        before, after = _outside(written, MARKDOWN)
    except (Unfit, AssertionError):
        return  # they wrote a fence or another marker: nothing is touched then either
    renewed = with_block(written, NEWER, MARKDOWN)
    assert _outside(renewed, MARKDOWN) == (before, after)
    left = without_block(renewed, MARKDOWN)
    assert left is not None
    assert left.endswith(after)
    assert before.startswith(left.removesuffix(after))
    assert before.removeprefix(left.removesuffix(after)).strip("\r\n") == ""


def test_a_file_that_was_made_for_it_goes_with_it() -> None:
    written = with_block(None, BODY, MARKDOWN)
    assert without_block(written, MARKDOWN) is None
    assert without_block(written + "My own words\n", MARKDOWN) == "My own words\n"
    assert without_block(with_block("", BODY, MARKDOWN), MARKDOWN) == "", "an empty file that was there stays"


def test_changed_block_is_kept_unless_forced() -> None:
    changed = with_block("# Mine\n", BODY, MARKDOWN).replace("Claim it.", "Do as you like.")
    with pytest.raises(Unfit, match="edited"):
        with_block(changed, NEWER, MARKDOWN)
    with pytest.raises(Unfit, match="edited"):
        without_block(changed, MARKDOWN)
    assert with_block(changed, NEWER, MARKDOWN, force=True) == with_block("# Mine\n", NEWER, MARKDOWN)
    assert without_block(changed, MARKDOWN, force=True) == "# Mine\n"


def test_block_uses_the_files_line_breaks() -> None:
    written = with_block("# Mine\r\n", BODY, MARKDOWN)
    assert "\n" not in written.replace("\r\n", "")
    unix = written.replace("\r\n", "\n")
    assert with_block(unix, BODY, MARKDOWN) == unix
    assert without_block(unix, MARKDOWN) == "# Mine\n"


def test_missing_final_line_break_is_restored() -> None:
    written = with_block("# Mine", BODY, MARKDOWN)
    assert written.startswith("# Mine\n\n<!-- dibs:begin")
    assert without_block(written, MARKDOWN) == "# Mine"


def test_markers_in_a_fenced_code_block_are_an_example() -> None:
    example = f"````md\n{with_block(None, BODY, MARKDOWN)}````\n"
    assert find(example, MARKDOWN) is None
    written = with_block(example, BODY, MARKDOWN)
    assert written.startswith(example)
    assert without_block(written, MARKDOWN) == example


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (with_block(None, BODY, MARKDOWN) * 2, "2 blocks"),
        ("<!-- dibs:begin v1 0123 after=new -->\ntext\n", "line 1 has no end"),
        ("text\n<!-- dibs:end -->\n", "line 2 that has not begun"),
        ("<!-- dibs:begin v1 01 after=1 -->\n" * 2 + "<!-- dibs:end -->\n", "line 1 and again in line 2"),
        ("```sh\nmake\n", "fenced code block"),
    ],
)
def test_unreadable_block_is_reported_and_kept(text: str, why: str) -> None:
    with pytest.raises(Unfit, match=why):
        with_block(text, BODY, MARKDOWN, force=True)
