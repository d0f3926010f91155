"""Which windows onto a simulation are there?"""
