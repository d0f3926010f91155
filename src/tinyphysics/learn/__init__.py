"""Runs as layers of other libraries."""
