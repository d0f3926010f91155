"""Runs on other machines: ensembles in blocks, with the bits of one machine."""
