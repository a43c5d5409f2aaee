"""The board in the browser: static files, served as they are."""
