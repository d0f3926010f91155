"""What does a program cost, and where does it run?"""
