"""Races of links and children on Neo4j with the finish, claim, cancelation or reopening of their tasks."""

from interleave.postgres.test_links import *  # noqa: F403 - all of them
