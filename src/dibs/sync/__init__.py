"""Bringing stores of several machines together."""
