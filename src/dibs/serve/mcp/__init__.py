"""dibs for models: the desk's verbs as a few tools of the Model Context Protocol, on stdio or mounted at /mcp."""
