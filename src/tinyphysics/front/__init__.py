"""The user's language: shapes, functions on symbols, and the decorators that trace."""
