"""How are nests written whose speed is in the order of instructions?"""
