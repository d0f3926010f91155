"""Derivatives of arrays too long to be written out: attempts run in loops, with the bits of the reference."""

import numpy as np
import pytest
from here import HERE

import tinyphysics as tp
from tinyphysics.errors import PlanError
from tinyphysics.synth.methods import chebyshev


@tp.ode
def heat(u: tp.Vec["n"], d: float = 1.0):
    return d * (np.roll(u, 1) + np.roll(u, -1) - 2 * u)


@tp.ode
def kuramoto(x: tp.Vec["n"], w: tp.Vec["n"], k: float = 2.0):
    return w + k / x.shape[0] * np.sin(x[None, :] - x[:, None]).sum(1)


@tp.ode
def damped_wave(u: tp.Array["n", "n"], v: tp.Array["n", "n"], drag: float = 0.1):
    bend = sum(np.roll(u, s, axis) for s in (1, -1) for axis in (0, 1)) - 4 * u
    return v, bend - drag * v - u**3


@tp.ode
def forced(u: tp.Vec["n"], s, t):
    return tp.cos(t) - u + 0.1 * np.roll(u, 1), u.sum() / u.shape[0] - s


def bump(n, width=5.0):
    return np.exp(-(((np.arange(n) - n / 2) / width) ** 2))


def exact_heat(u, t):
    k = 2 * np.pi * np.fft.fftfreq(len(u))
    return np.fft.ifft(np.fft.fft(u) * np.exp((2 * np.cos(k) - 2) * t)).real


SYSTEMS = {
    "heat": (heat, {"n": 70}, {"u": bump(70)}, {}, 1.0),
    "kuramoto": (
        kuramoto,
        {"n": 12},
        {"x": np.sin(np.arange(12.0) ** 2)},
        {"w": np.cos(np.arange(12.0) ** 2)},
        0.05,
    ),
    "wave": (damped_wave, {"n": 12}, {"u": bump(12)[:, None] * bump(12), "v": np.zeros((12, 12))}, {}, 0.5),
    "forced": (forced, {"n": 66}, {"u": bump(66), "s": 0.5}, {}, 1.0),
}


@pytest.mark.parametrize(
    "name, method",
    [("heat", "dop853"), ("kuramoto", "dopri5"), ("wave", "dopri5"), ("forced", "dopri5"), ("heat", "rkc")],
)
def test_arrays_have_the_bits_of_the_reference(name, method):
    system, sizes, start, params, until = SYSTEMS[name]
    found = {}
    for backend in ("python", "llvm", "numpy"):
        sim = tp.compile(system, method=method, sizes=sizes, backend=backend, tolerance=1e-5)
        out = sim.evolve(**start, **params, until=until, save_at=[until])
        found[backend] = out.hash, out.metrics["substeps"], out.metrics["rejected"]
    assert len(set(found.values())) == 1, found


@pytest.mark.slow("a small wave is the first one that is tried")
@pytest.mark.parametrize("n, method", [
    (8, "dopri5"), *(pytest.param(*x, marks=pytest.mark.all) for x in ((8, "dop853"), (6, "rodas"), (5, "rkc")))
])  # fmt: skip
def test_short_axes_are_loops_where_writing_out_is_too_long(n, method):
    """An 8 x 8 wave has no axis longer than 8, and 25,000 operations an attempt."""
    from scipy.integrate import solve_ivp

    u = np.sin(np.arange(1.0, n * n + 1)).reshape(n, n)
    sim = tp.compile(damped_wave, method=method, sizes={"n": n}, tolerance=1e-7)
    out = sim.evolve(u=u, v=np.zeros((n, n)), until=0.5, save_at=[0.5])

    def rates(t, z):
        u, v = z.reshape(2, n, n)
        bend = sum(np.roll(u, s, axis) for s in (1, -1) for axis in (0, 1)) - 4 * u
        return np.concatenate([v.ravel(), (bend - 0.1 * v - u**3).ravel()])

    true = solve_ivp(
        rates, (0, 0.5), np.concatenate([u.ravel(), 0 * u.ravel()]), "DOP853", rtol=1e-11, atol=1e-12
    )
    assert np.abs(out.final.u.ravel() - true.y[: n * n, -1]).max() < 1e-5


def test_what_is_advised_is_not_what_failed():
    names = [f"x{k}" for k in range(70)]
    scope = {"tp": tp}
    exec(f"def many({', '.join(names)}):\n    return {', '.join(f'-{x}' for x in names)}", scope)
    with pytest.raises(PlanError, match='write its states as one array, tp.Vec\\["n"\\]'):
        tp.compile(tp.ode(scope["many"]), method="dop853")


def test_every_backend_that_runs_loops_agrees():
    found = {}
    for backend in [b for b in HERE if b != "cuda"]:
        sim = tp.compile(heat, method="dopri5", sizes={"n": 80}, backend=backend, tolerance=1e-4)
        found[backend] = sim.evolve(u=bump(80), until=2.0, save_at=[2.0]).hash
    assert len(found) > 3 and len(set(found.values())) == 1, found


@pytest.mark.parametrize("method, least", [("dopri5", 4.0), ("dop853", 6.5)])
def test_the_error_falls_with_the_order(method, least):
    steps, errors = [], []
    for tolerance in (1e-6, 1e-10):  # so short that stability is no matter
        sim = tp.compile(heat, method=method, sizes={"n": 70}, tolerance=tolerance, absolute=tolerance)
        out = sim.evolve(u=bump(70, 1.5), until=4.0, save_at=np.linspace(2.0, 4.0, 9))
        steps.append(out.metrics["substeps"])
        errors.append(max(np.abs(u - exact_heat(bump(70, 1.5), t)).max() for t, u in zip(out.t, out.u)))
    assert errors[0] < 1e-4 and errors[1] < 1e-8, errors
    assert np.log(errors[0] / errors[1]) / np.log(steps[1] / steps[0]) > least


def test_stages_of_chebyshev_are_those_of_a_method_of_order_2():
    """Consistency, exactly at the places: sums of weights, and the stability polynomial to second order."""
    rows = chebyshev.recurrences(chebyshev.STAGES)

    def grown(z):  # the stability polynomial: x' = z x, h = 1
        before, last, place = 0.0, rows[0].slope * z, rows[0].place
        for r in rows[1:]:
            new = r.slope * z * (1 + last) + r.begin * z + r.last * last + r.before * before
            before, last, place = last, new, r.place
        return 1 + last, place

    assert grown(0.0) == (1.0, 1.0)
    h = 1e-4
    up, down = grown(h)[0], grown(-h)[0]
    assert (up - down) / (2 * h) == pytest.approx(1.0, abs=1e-7)
    assert (up + down - 2) / h**2 == pytest.approx(1.0, abs=1e-6)
    edge = 0.65 * (chebyshev.STAGES**2 - 1)
    assert max(abs(grown(-z)[0]) for z in np.linspace(0.1, edge, 5000)) < 1.0 < abs(grown(-1.1 * edge)[0])


def test_diffusion_takes_few_slopes_with_stages_of_chebyshev():
    taken = {}
    for method in ("rkc", "dopri5"):
        sim = tp.compile(heat, method=method, sizes={"n": 100}, tolerance=1e-4, absolute=1e-4)
        out = sim.evolve(u=bump(100), d=100.0, until=4.0, save_at=[4.0])
        assert np.abs(out.final.u - exact_heat(bump(100), 400.0)).max() < 3e-4
        slopes = {"rkc": 20, "dopri5": 6}[method]
        taken[method] = slopes * (out.metrics["substeps"] + out.metrics["rejected"])
    assert 4 * taken["rkc"] < taken["dopri5"]


@pytest.mark.all
def test_the_error_of_chebyshev_falls_as_the_square_of_the_step():
    errors, steps = [], []
    for tolerance in (1e-5, 1e-8):
        sim = tp.compile(heat, method="rkc", sizes={"n": 70}, tolerance=tolerance, absolute=tolerance)
        out = sim.evolve(u=bump(70), until=4.0, save_at=[4.0])
        errors.append(np.abs(out.final.u - exact_heat(bump(70), 4.0)).max())
        steps.append(out.metrics["substeps"])
    assert np.log(errors[0] / errors[1]) / np.log(steps[1] / steps[0]) == pytest.approx(2.0, abs=0.3)


def test_the_curve_through_a_step_is_as_good_as_its_end():
    sim = tp.compile(heat, dt=0.25, method="dop853", sizes={"n": 70}, tolerance=1e-9)
    out = sim.evolve(u=bump(70), until=10.0, save_every=1)
    assert out.metrics["substeps"] < 20 < len(out.t)
    off = [np.abs(u - exact_heat(bump(70), t)).max() for t, u in zip(out.t, out.u)]
    assert max(off) < 1e-8


def test_a_frame_is_the_end_of_a_shorter_run():
    sim = tp.compile(heat, dt=0.5, method="dopri5", sizes={"n": 70})
    long, short = (sim.evolve(u=bump(70), until=t, save_every=1) for t in (5.0, 2.5))
    assert np.array_equal(long.u[5], short.final.u)


def test_a_member_has_the_bits_that_it_has_alone():
    sim = tp.compile(heat, method="dopri5", sizes={"n": 70})
    starts = np.stack([bump(70), 2 * bump(70, 1.0), np.cos(np.arange(70.0))])
    rates = np.array([1.0, 0.3, 2.0])
    together = sim.evolve(u=starts, d=rates, until=3.0, save_at=[3.0])
    steps = together.metrics["substeps"].tolist()
    assert len(set(steps)) > 1
    for k in range(3):
        alone = sim.evolve(u=starts[k], d=rates[k], until=3.0, save_at=[3.0])
        assert np.array_equal(together.final.u[k], alone.final.u) and alone.metrics["substeps"] == steps[k]


def test_threads_change_no_bit():
    sim = tp.compile(heat, method="dopri5", sizes={"n": 40_000}, tolerance=1e-3)
    start = {"u": bump(40_000, 3.0), "until": 0.5, "save_at": [0.5]}
    one, two = (sim.evolve(**start, threads=k) for k in (1, 2))
    assert one.hash == two.hash


def test_a_run_goes_on_from_its_checkpoint(tmp_path):
    sim = tp.compile(heat, dt=0.5, method="dopri5", sizes={"n": 70})
    whole = sim.evolve(u=bump(70), until=4.0)
    sim.evolve(u=bump(70), until=2.0, checkpoint=tmp_path / "half")
    assert sim.evolve(resume=tmp_path / "half", until=4.0).hash == whole.hash


def test_a_solution_that_runs_away_stops():
    @tp.ode
    def runs_away(u: tp.Vec["n"]):
        return u * u + np.roll(u, 1)

    out = tp.compile(runs_away, method="dopri5", sizes={"n": 100}).evolve(u=np.ones(100), until=10.0)
    assert out.stopped.cause == "not finite"


def test_derivatives_of_large_arrays_get_a_pair_by_default():
    small, large = (tp.compile(heat, sizes={"n": n}) for n in (20, 2000))
    assert (small.built.plan.method, large.built.plan.method) == ("taylor", "dop853")
    assert tp.compile(heat, sizes={"n": 2000}, tolerance=1e-4).built.plan.method == "dopri5"
    assert "too long" in str(large.explain("full"))


def test_what_arrays_in_loops_cannot_do_is_said():
    @tp.ode
    def scattered(x: tp.Vec[70]):
        return tp.stack([-x[(k * k) % 70] for k in range(70)])

    with pytest.raises(
        PlanError, match="`dop853` of these arrays runs in loops only, and loops do not follow"
    ):
        tp.compile(scattered, method="dop853")


def test_a_gpu_takes_the_same_steps(fake_cuda):
    here, there = (
        tp.compile(heat, method="dopri5", sizes={"n": 80}, tolerance=1e-4, backend=b).evolve(
            u=bump(80), until=2.0, save_at=[1.0, 2.0]
        )
        for b in ("llvm", "cuda")
    )
    assert here.hash == there.hash and here.metrics["substeps"] == there.metrics["substeps"]
    assert np.array_equal(here.u, there.u)
