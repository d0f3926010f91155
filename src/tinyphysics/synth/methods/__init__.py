"""How do facts and weights become a step?"""
