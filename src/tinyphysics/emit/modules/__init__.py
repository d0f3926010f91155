"""What are whole modules and complete programs?"""
