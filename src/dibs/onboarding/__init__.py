"""How agents are taken on board: what they are told, and where the products they run in look for it."""
