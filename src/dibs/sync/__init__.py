"""Keeping a store in step with a place that others use too."""
