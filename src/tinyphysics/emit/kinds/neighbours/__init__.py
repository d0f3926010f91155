"""How are lists of neighbours made and read?"""
