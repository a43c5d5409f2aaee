"""Plans on Neo4j that meet work under way."""

from interleave.postgres.test_plans import *  # noqa: F403 - all of them
