"""How is one system made of several?"""
