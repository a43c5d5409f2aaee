"""Tasks as pages of a Notion database."""
