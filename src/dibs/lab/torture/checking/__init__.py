"""Whether one truthful desk can have told the workers what they heard. It knows their history and nothing else."""
