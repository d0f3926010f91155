"""A gas of whole numbers: particles on a square lattice, four bits a site, of which not one is ever lost."""

import numpy as np

import tinyphysics as tp

EAST, SOUTH, WEST, NORTH = 1, 2, 4, 8


def collided(f):
    """Two particles that meet head on leave at right angles."""
    return np.where((f == EAST + WEST) | (f == NORTH + SOUTH), f ^ 15, f)


@tp.map
def gas(f: tp.Int8["n", "n"]):
    """A step of Hardy, Pomeau and de Pazzis: particles collide, then each goes on by one site."""
    f = collided(f)
    across = np.roll(f & EAST, 1, 1) | np.roll(f & WEST, -1, 1)
    return across | np.roll(f & SOUTH, 1, 0) | np.roll(f & NORTH, -1, 0)


def particles(f):
    return sum(((f >> k) & 1).sum() for k in range(4))


def momentum(f):
    """To the east and to the south, in particles."""
    right, down, left, up = (((f >> k) & 1).sum() for k in range(4))
    return np.stack([right - left, down - up])


def turned(f):
    """Every particle in the other direction."""
    return ((f << 2) | (f >> 2)) & 15


n, steps, rng = 512, 1000, np.random.default_rng(3)
start = dict(f=sum((rng.random((n, n)) < 0.1).astype(np.int8) << k for k in range(4)))
start["f"][n // 3 : -n // 3, n // 3 : -n // 3] = 15  # a dense square in a thin gas

if __name__ == "__main__":
    sim = tp.compile(gas)
    out = sim.evolve(**start, steps=steps, observe={"count": particles, "momentum": momentum})
    print(
        f"{int(out['count'][0]):,} particles and a momentum of {out['momentum'][0]} in each of {steps} steps"
    )
    assert (out["count"] == particles(start["f"])).all() and (out["momentum"] == momentum(start["f"])).all()
    back = sim.evolve(f=collided(turned(out.final.f)), steps=steps).final.f
    print(
        "turned round, all go back to where they began:", np.array_equal(turned(collided(back)), start["f"])
    )
    assert np.array_equal(turned(collided(back)), start["f"])
