"""Rewrites and derivatives, as tables over the graph."""
