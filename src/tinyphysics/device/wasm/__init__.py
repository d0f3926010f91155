"""How is WebAssembly made and run?"""
