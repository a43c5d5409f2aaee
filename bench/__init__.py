"""Figures for the claims we make, as ratios of things measured side by side in one run."""
