"""What kinds of sub-flow and of coordinates are there?"""
