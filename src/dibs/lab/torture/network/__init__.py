"""A network between the workers and their store that breaks when it is told to."""
