"""Physics in the user's own language: only what tinyphysics.front offers, and NumPy."""
