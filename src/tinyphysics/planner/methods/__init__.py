"""Which methods are there, and what do they need?"""
