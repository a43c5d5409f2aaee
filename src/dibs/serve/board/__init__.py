"""The board: static files for the browser."""
