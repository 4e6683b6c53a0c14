"""The explorer: a page on which α, κ, T and t are moved and the solution space is seen.

It calls theory and samplers and computes nothing itself. Panel and Bokeh are imported by `serve` alone.
"""
