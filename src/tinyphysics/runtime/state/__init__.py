"""What is a run given, what does it keep and record?"""
