"""How is an expression, a line, a statement written in a language?"""
