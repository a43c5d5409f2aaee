"""Instructions for agents, and the files in which each product reads them."""
