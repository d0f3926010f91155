"""Are two expressions one function, and where is it defined?"""
