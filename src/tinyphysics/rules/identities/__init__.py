"""Which rewrites keep a value?"""
