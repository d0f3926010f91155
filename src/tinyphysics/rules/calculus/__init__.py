"""What are the derivatives, series and matrices of expressions?"""
