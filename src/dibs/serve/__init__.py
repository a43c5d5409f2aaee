"""The desk over HTTP: an API, live events, and what is built on them."""
