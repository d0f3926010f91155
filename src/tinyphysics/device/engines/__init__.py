"""How does an engine run lanes, nests, series or the VM, on one device or several?"""
