"""Which instructions are the flow of which declared term?"""
