"""Where programs run: each file makes one kind of machine look the same to the runtime."""
