"""Races of links that would close a cycle, on Neo4j, from two, three and four sides."""

from interleave.postgres.test_rings import *  # noqa: F403 - all of them
