"""How is a step made of a method?  One file for each family."""
