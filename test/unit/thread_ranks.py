"""Ranks that are threads of one process, for tests: each runs the same function, and they send each other copies."""

import queue
import threading


class ThreadRanks:
    def __init__(self, rank, size, posts, barrier, flags):
        self.rank, self.size, self.posts, self.barrier, self.flags = rank, size, posts, barrier, flags
        self.sent = self.messages = 0

    def exchange(self, out, into):
        for to, array in out:
            self.posts[self.rank, to].put(array.copy())
            self.sent += array.nbytes
            self.messages += 1
        for source, place in into:
            came = self.posts[source, self.rank].get(timeout=60)
            assert came.shape == place.shape and came.dtype == place.dtype
            place[...] = came

    def any(self, flag):
        self.flags[self.rank] = flag
        self.barrier.wait(60)
        found = any(self.flags)
        self.barrier.wait(60)
        return found

    def agree(self, word):
        return True


def run_ranks(size, f):
    """What f(ranks) returns in each of so many threads."""
    posts = {(a, b): queue.Queue() for a in range(size) for b in range(size)}
    barrier, flags, out, errors = threading.Barrier(size), [False] * size, [None] * size, []

    def one(k):
        try:
            out[k] = f(ThreadRanks(k, size, posts, barrier, flags))
        except BaseException as error:
            errors.append(error)
            barrier.abort()

    threads = [threading.Thread(target=one, args=(k,), daemon=True) for k in range(size)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
    if errors:
        raise next((e for e in errors if not isinstance(e, threading.BrokenBarrierError)), errors[0])
    return out
