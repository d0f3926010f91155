"""How does one compute with numbers of twice the digits?"""
