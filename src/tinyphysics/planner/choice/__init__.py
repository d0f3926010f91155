"""Which method and which step, and why not the others?"""
