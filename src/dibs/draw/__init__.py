"""Drawings of a graph: `formats` has those that are text, `svg` the picture; each is one pure function.

Arrows point the way time goes, from a prerequisite to what waits for it. The same graph gives the same text, in
whatever order its tasks and links were read. What is returned does not end in a newline.
"""
