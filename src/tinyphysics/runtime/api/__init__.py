"""What do users call?"""
