"""The version of this package: pyproject.toml, checkpoints and stores read it from here."""

__version__ = "0.1.0"
