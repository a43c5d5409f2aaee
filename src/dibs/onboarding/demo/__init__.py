"""`dibs demo`: a small fleet at work on a story, with real processes on a store of its own."""
