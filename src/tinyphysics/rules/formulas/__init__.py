"""Which physics has a closed form?"""
