"""How does a nest lie on lanes or threads?"""
