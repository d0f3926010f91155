"""How does each kind of nest go over its indices?"""
