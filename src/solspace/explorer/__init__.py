"""The explorer: a page on which α, κ, T and t are moved and the solution space is seen.

Panel and Bokeh are imported by `server.serve` alone.
"""
