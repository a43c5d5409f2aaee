"""`dibs demo`: a small fleet of real processes works through a story on a temporary store."""
