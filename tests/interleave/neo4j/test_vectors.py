"""Races of writes of vectors and settings on Neo4j."""

from interleave.neo4j import mutants
from interleave.neo4j.conftest import StageMaker
from interleave.postgres.test_vectors import (
    CHANGES,
    goes_wrong,
    in_two_scopes,
    keep_a,
    keep_b,
    some_settings,
    test_concurrent_settings_match_a_serial_order,
    test_first_vectors_of_two_lengths_keep_one_length,
    test_new_vector_length_needs_all_old_vectors_removed,
)

__all__ = (
    "test_concurrent_settings_match_a_serial_order",
    "test_first_vectors_of_two_lengths_keep_one_length",
    "test_new_vector_length_needs_all_old_vectors_removed",
)


def test_without_the_desk_lock_two_lengths_are_kept(stage: StageMaker) -> None:
    assert goes_wrong(stage(in_two_scopes), keep_a, keep_b, mutants.no_desk_lock)


def test_without_the_scope_lock_both_report_the_same_change(stage: StageMaker) -> None:
    assert goes_wrong(stage(some_settings), *CHANGES, mutants.no_lock)
