"""Vectors and settings that several write at once on Neo4j."""

from interleave.neo4j import mutants
from interleave.neo4j.conftest import StageMaker
from interleave.postgres.test_vectors import (
    CHANGES,
    goes_wrong,
    in_two_scopes,
    keep_a,
    keep_b,
    some_settings,
    test_another_length_comes_only_after_the_last_of_the_old_is_gone,
    test_of_two_who_keep_the_first_vectors_in_different_lengths_one_is_refused,
    test_settings_changed_by_two_at_once_are_those_of_one_after_the_other,
)

__all__ = (
    "test_another_length_comes_only_after_the_last_of_the_old_is_gone",
    "test_of_two_who_keep_the_first_vectors_in_different_lengths_one_is_refused",
    "test_settings_changed_by_two_at_once_are_those_of_one_after_the_other",
)


def test_without_the_lock_of_the_desk_two_lengths_would_be_kept(stage: StageMaker) -> None:
    assert goes_wrong(stage(in_two_scopes), keep_a, keep_b, mutants.no_desk_lock)


def test_without_the_lock_of_the_scope_both_would_tell_of_the_same_change(stage: StageMaker) -> None:
    assert goes_wrong(stage(some_settings), *CHANGES, mutants.no_lock)
