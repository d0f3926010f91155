"""What can be shown about a system: one question per file, each answer with its evidence."""
