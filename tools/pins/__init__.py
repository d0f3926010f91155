"""What tools/replay.py compares: runs, texts and messages, each pinned by what it was before."""
