"""Two-way sync of a sender's tasks with a Notion database."""
