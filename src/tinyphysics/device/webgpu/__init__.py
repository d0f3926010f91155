"""How are WebGPU adapters driven, and what does each of them round?"""
