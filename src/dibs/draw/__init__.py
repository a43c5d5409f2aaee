"""Drawings of a graph: `formats` has the text formats, `svg` the picture; each is one pure function.

Arrows point from a prerequisite to its dependent task. The same graph gives the same text, whatever the order of its
tasks and links. The text does not end in a newline.
"""
