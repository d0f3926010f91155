"""What are the instructions, their text, their meaning, and how is a step written in them?"""
