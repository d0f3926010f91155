"""What does a machine compute that has no mathematics library?"""
