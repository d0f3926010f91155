"""How are NVIDIA GPUs driven: memory and launches?"""
