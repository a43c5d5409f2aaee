"""dibs: the desk where fleets of AI agents pick up work."""

__version__ = "0.1.0"
