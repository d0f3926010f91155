"""What are the weights of a method, exactly?"""
