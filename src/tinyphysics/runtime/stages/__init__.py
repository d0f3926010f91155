"""How does a call of evolve become a trajectory?"""
