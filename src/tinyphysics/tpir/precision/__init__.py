"""What is the same program in other numbers?"""
