"""A fleet at work: who belongs to it, who gets what, and the programs that do it."""
