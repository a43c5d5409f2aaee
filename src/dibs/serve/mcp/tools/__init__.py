"""What the tools do, each at the desk of a session. Their table is in `dibs.serve.mcp.table`."""
