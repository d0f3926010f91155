"""How are OpenCL devices driven?"""
