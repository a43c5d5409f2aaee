"""A graph as text: `mermaid`, `dot`, `svg` and `text` are one module and one pure function each, imported by who draws.

Arrows point the way time goes, from a prerequisite to what waits for it. The same graph gives the same text, in
whatever order its tasks and links were read. What is returned does not end in a newline.
"""
