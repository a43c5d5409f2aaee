"""What races of writes of vectors and settings on Neo4j do without their locks."""

from interleave.neo4j import mutants
from interleave.neo4j.conftest import StageMaker
from interleave.postgres.test_vectors import goes_wrong
from interleave.test_vectors import CHANGES, in_two_scopes, keep_a, keep_b, some_settings


def test_without_the_desk_lock_two_lengths_are_kept(stage: StageMaker) -> None:
    assert goes_wrong(stage(in_two_scopes), keep_a, keep_b, mutants.no_desk_lock)


def test_without_the_scope_lock_both_report_the_same_change(stage: StageMaker) -> None:
    assert goes_wrong(stage(some_settings), *CHANGES, mutants.no_lock)
