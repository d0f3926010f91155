"""Kernels as source text: one table of templates per language."""
