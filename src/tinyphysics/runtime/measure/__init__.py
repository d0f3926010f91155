"""What is measured before, in and after a run?"""
