"""Links that would close a ring, on Neo4j: from two, three and four sides at once."""

from interleave.postgres.test_rings import *  # noqa: F403 - all of them
