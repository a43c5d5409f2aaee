"""A plan on Neo4j and an add of one of its tasks."""

from interleave.postgres.test_plans import test_same_id_from_a_plan_and_an_add_exists_once

__all__ = ("test_same_id_from_a_plan_and_an_add_exists_once",)
