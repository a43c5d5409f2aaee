"""Races of plans with other writes on Neo4j."""

from interleave.postgres.test_plans import *  # noqa: F403 - all of them
