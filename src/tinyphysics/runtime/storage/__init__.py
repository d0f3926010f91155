"""How are runs kept in files?"""
