"""The desk's verbs as tools of the Model Context Protocol (MCP), on stdio or at /mcp of a server."""
