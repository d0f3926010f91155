"""How are trees of points made and walked?"""
