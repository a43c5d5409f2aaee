"""Keeping the tasks of a sender in step with a Notion database, in both directions."""
