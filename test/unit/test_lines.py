"""Several fields along a line: eliminated place by place, on every backend, against dense matrices."""

import numpy as np
import pytest
from here import HERE
from loops_on_numbers import LoopsOnNumbers
from ptx_on_host import OnHost
from test_bands import bend, dense, ends, numbers
from test_loops import loops

import tinyphysics as tp
from tinyphysics.flows.solvers.banded import band_of
from tinyphysics.flows.solvers.lines import MOST, goes_along, solved_along
from tinyphysics.flows.solvers.solver import Slopes
from tinyphysics.ir import Ops, UOp
from tinyphysics.ir.spec import SHAPED, check
from tinyphysics.ir.uop import substitute, toposort
from tinyphysics.ir.value import evaluate
from tinyphysics.rules.calculus.lines import line, values
from tinyphysics.runtime.engines.loaders import CLoops, LlvmLoops, numpy_loops

LINES = {
    "three fields": (3, lambda a, b, c: [bend(a) - a * b, a * b + 2 * bend(b) + c, bend(c) - c * a * b]),
    "four, of which two stay": (4, lambda a, b, c, d: [bend(a) - b, a - b * c, 3 * bend(c) - d, c + a * d]),
    "five in a wind": (5, lambda *z: [bend(u) + k * (u - np.roll(u, 1)) - u * z[k - 1] for k, u in enumerate(z)]),
    "an open line": (3, lambda a, b, c: [ends(a) + b, ends(b) - a * c, ends(c) + a - b]),
    "crossed": (3, lambda a, b, c: [np.roll(b, 1) * a, np.roll(c, -1) + np.roll(a, 1) * b, bend(c) - a]),
    "one field, two places far": (1, lambda u: [-bend(bend(u)) - u**3]),
    "two fields, two places far": (2, lambda u, v: [-bend(bend(u)) - v, bend(v) * u]),
}  # fmt: skip


def band(name, n, most=MOST):
    m, rates = LINES[name]
    states, env = numbers(m, n)
    slopes = rates(*states)
    return band_of(Slopes(tuple(states), tuple(slopes), tuple(states)), most), states, slopes, env


def with_values(roots, env):
    """Expressions that hold equations along lines, evaluated: each of them first, by what it is made of."""
    known = {}
    while lines := [u for u in toposort(roots) if u.op is Ops.LINE and Ops.LINE not in {x.op for s in u.src for x in toposort([s])}]:  # fmt: skip
        found = {}
        for u in lines:
            check([u], SHAPED)
            name = f"line{len(known)}"
            known[name] = values(u)(*evaluate(u.src, env | known))
            found[u] = UOp.var(name, u.shape, u.dtype)
        roots = substitute(roots, found)
    return evaluate(roots, env | known)


@pytest.mark.parametrize("n", [6, *(pytest.param(n, marks=pytest.mark.all) for n in (7, 33, 66))])
@pytest.mark.parametrize("name", LINES)
def test_a_line_is_solved_to_rounding(name, n):
    n *= 2 if "two places far" in name else 1  # whole blocks
    found, states, slopes, env = band(name, n)
    right = np.random.default_rng(n).normal(size=(len(states), n))
    given = [UOp.var(f"r{k}", (n,)) for k in range(len(states))]
    env |= {f"r{k}": row.tolist() for k, row in enumerate(right)}
    w = 0.07
    d = np.concatenate(with_values(solved_along(found, UOp.const(w), given), env))
    J = dense(slopes, states, env)
    assert np.abs(d - w * J @ d - right.ravel()).max() < 1e-12 * max(1.0, np.abs(d).max())


def test_which_lines_are_eliminated():
    wide, *_ = band("two fields, two places far", 70)
    assert wide.block == 4 and goes_along(wide, 130) and not goes_along(wide, 131)
    assert not goes_along(wide, 128)  # 64 blocks may be written out
    assert band("five in a wind", 70)[0].block == 5 and goes_along(band("five in a wind", 70)[0], 65)
    assert band("three fields", 70, 2)[0] is None


# --- the nest ------------------------------------------------------------------------------------------
def beside(n, columns, m, lanes, seed=0):
    """Random systems of some lines beside each other, and their solutions."""
    rng = np.random.default_rng(seed)
    a, c = rng.normal(size=(2, n, n, m, lanes))
    own = rng.normal(size=(n, n, m, lanes)) + 6 * n * np.eye(n)[:, :, None, None]
    r = rng.normal(size=(n, columns, m, lanes))
    x = np.empty_like(r)
    for k in range(lanes):
        whole = np.zeros((n * m, n * m))
        for i in range(m):
            for j, block in ((i - 1, a), (i, own), (i + 1, c)):
                if 0 <= j < m:
                    whole[i * n : i * n + n, j * n : j * n + n] = block[:, :, i, k]
        x[:, :, :, k] = np.linalg.solve(whole, r[..., k].transpose(2, 0, 1).reshape(-1, columns)).reshape(m, n, columns).transpose(1, 2, 0)  # fmt: skip
    return (a, own, c, r), x


FORMS = {
    "numpy": numpy_loops,
    "llvm": LlvmLoops,
    "four": lambda: LlvmLoops(width=4),
    "c": CLoops,
    "threads": OnHost,
    **{form: (lambda form=form: LoopsOnNumbers(form)) for form in ("ranged", "tiled", "threaded")},
}
BY_NUMBERS = ("ranged", "tiled", "threaded")  # two seconds each with 33 lanes
CASES = [
    pytest.param(form, lanes, marks=pytest.mark.all if form in BY_NUMBERS and lanes > 1 else ())
    for form in FORMS
    for lanes in (1, 37)
]


@pytest.mark.parametrize(("form", "lanes"), CASES)
def test_lines_beside_each_other_are_lanes(form, lanes):
    n, columns, m = 2, 1, 40
    given, x = beside(n, columns, m, lanes)

    @tp.map
    def solve(a: tp.Array[n, n, m, lanes], d: tp.Array[n, n, m, lanes], c: tp.Array[n, n, m, lanes], r: tp.Array[n, columns, m, lanes]):  # fmt: skip
        found = line(a, d, c, r, (15, 15))
        return a, d, c, found[:, n:]

    sim = tp.compile(solve, backend="python")
    state = dict(zip("adcr", given))
    found = loops(sim, FORMS[form](), state, {}, 1)["r"].reshape(x.shape)
    assert np.abs(found - x).max() < 1e-13
    assert found.tobytes() == loops(sim, LlvmLoops(), state, {}, 1)["r"].tobytes()


# --- steps ---------------------------------------------------------------------------------------------
@tp.ode
def chemistry(a: tp.Vec["n"], b: tp.Vec["n"], c: tp.Vec["n"], spread: float = 200.0, k: float = 1e4):
    """Robertson's reactions at each place of a ring."""
    slow, middle, fast = 0.04 * a, k * b * c, 3e3 * k * b * b
    return -slow + middle + spread * bend(a), slow - middle - fast + spread * bend(b), fast + spread * bend(c)


def at_rest(n):
    x = 2 * np.pi * np.arange(n) / n
    return dict(a=1 + 0.5 * np.sin(x), b=np.zeros(n), c=np.zeros(n))


@pytest.mark.all
@pytest.mark.parametrize("n", [65, 128])
def test_a_line_has_the_same_bits_on_every_backend(n):
    options = dict(method="rodas", tolerance=1e-3, absolute=1e-6, sizes={"n": n})
    found = {b: tp.compile(chemistry, backend=b, **options).evolve(**at_rest(n), until=1e-5) for b in HERE}
    assert {f.final.c.tobytes() for f in found.values()} == {found["llvm"].final.c.tobytes()}


def test_reactions_and_diffusion_that_are_both_stiff():
    """What is left after long: the sum stays, and every place has the mean's chemistry."""
    n, options = 65, dict(method="rodas", tolerance=1e-7, absolute=1e-11)
    out = tp.compile(chemistry, **options, sizes={"n": n}).evolve(**at_rest(n), spread=2e6, until=40.0)
    assert out.stopped is None and out.metrics["substeps"] < 400
    total = out.final.a + out.final.b + out.final.c
    assert np.abs(total.sum() / n - 1) < 1e-9 and np.ptp(total) < 1e-6
    assert abs(out.final.a.mean() - 0.7158270688) < 1e-5  # Robertson's problem at t = 40


def test_members_and_pieces_have_the_bits_of_one_run(tmp_path):
    n = 65
    sim = tp.compile(chemistry, method="rodas", tolerance=1e-4, absolute=1e-7, sizes={"n": n}, dt=0.01)
    one, two = at_rest(n), at_rest(n) | {"a": 2 - at_rest(n)["a"]}
    out = sim.evolve(**{k: np.array([one[k], two[k]]) for k in one}, steps=4, save_every=1, threads=2)
    alone = sim.evolve(**two, steps=2, checkpoint=tmp_path / "line")
    assert out.c[2, 1].tobytes() == alone.final.c.tobytes()
    assert sim.evolve(resume=tmp_path / "line", steps=2).final.c.tobytes() == out.c[4, 1].tobytes()


@pytest.mark.all
def test_a_gpu_eliminates_a_line_in_one_thread(fake_cuda):
    options = dict(method="rodas", tolerance=1e-2, absolute=1e-4, sizes={"n": 65})
    sims = [tp.compile(chemistry, backend=b, **options) for b in ("cuda", "llvm")]
    there, own = (sim.evolve(**at_rest(65), until=1e-6, frames=2) for sim in sims)
    assert there.metrics["backend"]["used"] == "cuda"
    assert there.final.c.tobytes() == own.final.c.tobytes()
