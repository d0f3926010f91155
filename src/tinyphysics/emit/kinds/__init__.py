"""How is each kind of nest written?"""
