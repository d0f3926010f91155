"""How is a correction computed of a residual of whole arrays?"""
