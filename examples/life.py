"""The game of life on a million cells of one byte each: a glider in an empty world, then a random world."""

import numpy as np

import tinyphysics as tp


@tp.map
def life(cells: tp.Int8["n", "n"]):
    """A cell is born where three of its eight neighbours live, and goes on living with two or three."""
    around = sum(np.roll(cells, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
    return ((around == 3) | ((around == 2) & (cells == 1))).astype("int8")


n, steps = 1024, 1000
start = dict(cells=(np.random.default_rng(1).random((n, n)) < 0.3).astype(np.int8))
glider = np.array([[0, 1, 0], [0, 0, 1], [1, 1, 1]], np.int8)

if __name__ == "__main__":
    sim = tp.compile(life)
    empty = np.zeros((n, n), np.int8)
    empty[:3, :3] = glider
    moved = sim.evolve(cells=empty, steps=4 * n).final.cells  # one cell along the diagonal in four steps
    print("a glider went once around the world:", np.array_equal(moved, empty))
    out = sim.evolve(**start, steps=steps, observe={"alive": lambda cells: cells.sum()}, observe_every=100)
    print(
        f"alive at the start {out['alive'][0] / n**2:.3f}, after {steps} steps {out['alive'][-1] / n**2:.3f}"
    )
    print(f"{out.final.cells.dtype}, {out.final.cells.nbytes:,} bytes, hash {out.hash}")
    assert np.array_equal(moved, empty)
    assert out["alive"][-1] == out.final.cells.sum() < out["alive"][0]
