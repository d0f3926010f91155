"""How is a program written out number by number?"""
