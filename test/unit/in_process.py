"""A pool of workers in this process, for tests: what it is given and gives back is pickled, and answers come in any order."""

import pickle
import random
import time

from tinyphysics.cluster.ensemble import Answer
from tinyphysics.cluster.worker import run_block


class InProcess:
    """Workers by name; `unable` ones have no backend, `wrong` ones flip a bit of what they return, `dying` ones never answer."""

    name = "this process"

    def __init__(self, names=("a", "b", "c"), wrong=(), dying=(), unable=(), seed=0):
        self.names, self.wrong, self.dying, self.unable = list(names), set(wrong), set(dying), set(unable)
        self.queue, self.shuffle, self.sent, self.retired = [], random.Random(seed), [], []
        self.most = 0  # blocks at once

    def workers(self):
        return [n for n in self.names if n not in self.retired]

    def slots(self):
        return len(self.workers())

    def busy(self):
        return time.process_time()

    def send(self, parcel):
        self.parcel = pickle.dumps(parcel)

    def submit(self, number, block, only=()):
        worker = self.shuffle.choice(list(only) or self.workers())
        self.sent.append((number, worker))
        self.queue.append((number, worker, pickle.dumps(block)))
        self.most = max(self.most, len(self.queue))

    def answers(self):
        while self.queue:
            number, worker, block = self.queue.pop(self.shuffle.randrange(len(self.queue)))
            if worker in self.dying:
                yield Answer(number, worker, None, "the workers that had this block died (4 times)")
                continue
            if worker in self.unable:
                yield Answer(number, worker, None, refused="backend='cuda': there is no GPU")
                continue
            done = pickle.loads(pickle.dumps(run_block(pickle.loads(self.parcel), pickle.loads(block))))
            yield Answer(number, worker, flipped(done) if worker in self.wrong else done)

    def retire(self, worker):
        self.retired.append(worker)

    def stop(self):
        self.queue.clear()


def flipped(done):
    """One bit of the final state is another."""
    from dataclasses import replace

    from tinyphysics.cluster.worker import digest_of

    for arrays in (done.record.final, done.record.frames):
        name = next(iter(arrays))
        arrays[name] = arrays[name].copy()
        arrays[name].reshape(-1).view("u1")[-8] ^= 1
    return replace(done, digest=digest_of(done.record))
