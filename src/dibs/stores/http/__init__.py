"""Another dibs server as a store: the port over HTTP."""
