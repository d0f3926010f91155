"""How does this processor run code?"""
