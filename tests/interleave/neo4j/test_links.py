"""Links and children that come and go on Neo4j while their tasks are finished, claimed, canceled or opened again."""

from interleave.postgres.test_links import *  # noqa: F403 - all of them
