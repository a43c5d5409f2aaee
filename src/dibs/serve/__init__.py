"""The desk over HTTP: access, the API, live events, the board, and MCP."""
