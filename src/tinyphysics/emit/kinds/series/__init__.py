"""How is a Taylor series in loops written?"""
