"""Pictures of the nouns: a run and a report, as characters in a terminal."""
