"""The spelling check finds misspelt words, and skips code and names."""

from __future__ import annotations

import spelling


def test_misspelt_word_is_found_with_its_sentence() -> None:
    assert spelling.unknown(["The worker recieves a task."]) == {"recieves": "The worker recieves a task."}


def test_code_options_and_project_words_pass() -> None:
    texts = ["Run `dibs lsit` with --tokn and open src/dibs/tsak.py.", "A worktree of kurultai's ids, e.g. `xyzzy`."]
    assert spelling.unknown(texts) == {}


def test_project_dictionary_is_sorted_and_needed() -> None:
    words = spelling.WORDS.read_text(encoding="utf-8").splitlines()[1:]
    assert words == sorted(set(words))
    assert [word for word in words if word in spelling.english()] == []
