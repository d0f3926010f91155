"""How is a matrix taken apart in double-double, for loops that are deleted?"""
