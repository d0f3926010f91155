"""What does a machine compute: numbers, or nests of loops over buffers?"""
