"""Which engine runs a program?"""
