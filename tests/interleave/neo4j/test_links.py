"""Writes on Neo4j during which a lease ends, or which link to a task that is being pruned."""

from interleave.postgres.test_links import *  # noqa: F403 - all of them
