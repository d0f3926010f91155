"""Has every method the order it claims, on energies that nobody chose, and is every certificate true of them?

    PYTHONPATH=src python tools/orders.py                            # 1,000 random energies, every splitting: a table
    PYTHONPATH=src python tools/orders.py --count 50 chin4 yoshida4  # fewer, some of the methods

Programs are run in 40 digits, as their own expressions without their roundings. The reference shares nothing with
them but the energy as it was written: derivatives in forward mode, and extrapolated midpoint rules to 30 digits.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import mpmath as mp

import tinyphysics as tp
from tinyphysics.analysis.analyse import facts_of
from tinyphysics.facts import Facts
from tinyphysics.ir import Ops, UOp, elements, toposort
from tinyphysics.plan import Goal
from tinyphysics.planner.choice.choose import objection
from tinyphysics.planner.methods.catalog import BY_NAME
from tinyphysics.planner.methods.method import Job, Method, step_of
from tinyphysics.rules.calculus.unroll import unroll
from tinyphysics.runtime.measure.precise import functions_of
from tinyphysics.system import System
from tinyphysics.tpir.kernels.kernel import NOW, ORIGIN, STEP, build_kernel
from tinyphysics.tpir.program.isa import Program
from tinyphysics.tpir.program.lower import lower
from tinyphysics.tpir.verifier import Certificate, verify

DIGITS = 40
REFERENCE = 30  # digits of the solution that errors are measured against
UNTIL = Fraction(1)
ROUNDED = 2e-15  # errors below are those of weights that were rounded to doubles
HALVINGS = 9
SETTLED = 0.05  # two slopes that differ by less are those of an order, if a lower one than claimed
MOST_HALVES = 5  # of a piece of the reference
BELOW, ABOVE = 0.2, 0.5  # of the order that is claimed; above, the range is not asymptotic (numerics: 17)

Numbers = list[Any]  # of mpmath
Run = Callable[..., Numbers]
EXACT = 1e-13  # certificates hold up to the rounding of weights, and of the constants that a derivative multiplies


# --- energies -------------------------------------------------------------------------------------------------
def random_energy(seed: int) -> System:
    """T(p, t) + V(q, t), smooth wherever a short run can go; a third of the kinetic energies is not quadratic."""
    rng = random.Random(seed)
    n = rng.randint(1, 3)
    clock = {"T": rng.random() < 0.2, "V": rng.random() < 0.3}

    def beat(r: random.Random, name: str, t: Any) -> Any:
        return 1 + 0.3 * tp.sin((1 + r.random()) * t) if clock[name] else 1.0

    def energy(q: Any, p: Any, t: Any) -> Any:
        r = random.Random(seed + 1)  # the same whenever it is traced
        return kinetic(r, p, n) * beat(r, "T", t) + potential(r, q, n) * beat(r, "V", t)

    energy.__annotations__ = {"q": tp.Vec[n], "p": tp.Vec[n]}
    energy.__name__ = f"energy{seed}"
    system: System = tp.hamiltonian(energy)
    return system


def kinetic(r: random.Random, p: Any, n: int) -> Any:
    out = sum(p[k] ** 2 * r.uniform(0.2, 1.0) for k in range(n))
    kind = r.random()
    if kind < 0.4 and n > 1:
        out = out + r.uniform(-0.3, 0.3) * p[0] * p[1]
    elif kind > 0.85:
        out = out + r.uniform(0.1, 0.4) * p[0] ** r.choice([3, 4])
    elif kind > 0.7:
        out = tp.sqrt(1 + 2 * out)
    return out


# fmt: off
TERMS: tuple[Callable[[random.Random, Any, Any], Any], ...] = (
    lambda r, x, y: r.uniform(-1, 1) * tp.sin(x) * tp.cos(y),
    lambda r, x, y: tp.exp(-(x * x) - y * y),
    lambda r, x, y: tp.log(2 + x * x) * y,
    lambda r, x, y: 1 / tp.sqrt(1.5 + (x - y) * (x - y)),
    lambda r, x, y: (1 + x * x) ** r.choice([0.5, 1.5, 2.0, 1.3, -1.0, -2.5]),
    lambda r, x, y: tp.tanh(x) * r.uniform(-2, 2),
    lambda r, x, y: x * x * y - y**3 / 3,
    lambda r, x, y: x**4 / 4,
)
# fmt: on


def potential(r: random.Random, q: Any, n: int) -> Any:
    out = sum(q[k] ** 2 for k in range(n)) / 2
    for _ in range(r.randint(1, 4)):
        out = out + r.choice(TERMS)(r, q[r.randrange(n)], q[r.randrange(n)])
    return out


def start(seed: int, size: int) -> Numbers:
    r = random.Random(seed + 2)
    return [mp.mpf(r.uniform(-0.8, 0.8)) for _ in range(size)]


# --- programs in many digits ----------------------------------------------------------------------------------
def in_python(roots: Sequence[UOp], inputs: Sequence[UOp]) -> Callable[..., Numbers]:
    """Scalar graphs as one Python function of numbers of mpmath."""
    names = {u: f"x{k}" for k, u in enumerate(inputs)}
    lines, scope = [], {f"f_{op.value}": f for op, f in functions_of(mp).items()}
    for u in toposort(roots):
        if u in names:
            continue
        names[u] = name = f"v{len(names)}"
        if u.op is Ops.CONST:
            scope[name] = mp.mpf(u.arg)
        else:
            lines.append(f"  {name} = f_{u.op.value}({', '.join(names[s] for s in u.src)})")
    given = ", ".join(names[u] for u in inputs)
    exec("\n".join([f"def f({given}):", *lines, f"  return [{', '.join(names[u] for u in roots)}]"]), scope)
    return scope["f"]  # type: ignore[no-any-return]


def in_digits(program: Program) -> Run:
    """The run of a program: (state, steps, dt) to the synchronised state."""
    kernel = build_kernel(program)
    around = (STEP, ORIGIN, NOW)
    assert set(kernel.params) <= set(around), "parameters are not given here"
    init = in_python(kernel.functions["init"], [*kernel.inputs, *around])
    step = in_python(kernel.whole_step(), [*kernel.carried, *around])
    final = in_python(kernel.functions["final"], [*kernel.carried, *around])

    def run(state: Numbers, steps: int, dt: Any, t0: Any = 0) -> Numbers:
        carried = init(*state, dt, t0, 0)
        for n in range(steps):
            carried = step(*carried, dt, t0, n)
        return final(*carried, dt, t0, steps)

    return run


# --- the reference --------------------------------------------------------------------------------------------
# fmt: off
SLOPES: dict[Ops, tuple[str, ...]] = {  # the value of an operation on a and b, then its slopes in them
    Ops.ADD:  ("{a} + {b}", "one", "one"),
    Ops.SUB:  ("{a} - {b}", "one", "-one"),
    Ops.MUL:  ("{a} * {b}", "{b}", "{a}"),
    Ops.DIV:  ("{a} / {b}", "one / {b}", "-{v} / {b}"),
    Ops.POW:  ("mp.power({a}, {b})", "{b} * mp.power({a}, {b} - 1)", "none"),
    Ops.NEG:  ("-{a}", "-one"),
    Ops.SIN:  ("mp.sin({a})", "mp.cos({a})"),
    Ops.COS:  ("mp.cos({a})", "-mp.sin({a})"),
    Ops.EXP:  ("mp.exp({a})", "{v}"),
    Ops.LOG:  ("mp.log({a})", "one / {a}"),
    Ops.TANH: ("mp.tanh({a})", "one - {v} * {v}"),
    Ops.SQRT: ("mp.sqrt({a})", "one / (2 * {v})"),
}
# fmt: on


def rate(system: System) -> Callable[[Any, Numbers], Numbers]:
    """J times the gradient of the energy as it was written, at (t, q and p of each pair): forward, number by number."""
    assert system.energy is not None
    ((energy,),) = unroll([system.energy])
    states = [e for s in system.states for e in elements(s.var)]
    half, names = len(states) // 2, {u: f"z{k}" for k, u in enumerate(states)}
    slopes: dict[UOp, dict[int, str]] = {u: {k: "one"} for k, u in enumerate(states)}
    lines, scope = list[str](), {"mp": mp, "one": mp.mpf(1)}
    for u in toposort([energy]):
        if u in names or u.op is Ops.VAR and u is not system.time:
            continue
        names[u] = v = "t" if u is system.time else f"v{len(names)}"
        if u.op is Ops.CONST:
            scope[v] = mp.mpf(u.arg)
        own: dict[int, str] = {}
        if u.src:
            value, *partials = SLOPES[u.op]
            at = dict(zip("ab", (names[s] for s in u.src)), v=v)
            lines.append(f"  {v} = {value.format(**at)}")
            for s, partial in zip(u.src, partials):
                for k, d in slopes[s].items():
                    product = f"({partial.format(**at)}) * {d}"
                    own[k] = f"{own[k]} + {product}" if k in own else product
            lines += [f"  {v}_{k} = {text}" for k, text in own.items()]
        slopes[u] = {k: f"{v}_{k}" for k in own}
    ends = [slopes[energy].get(k, "0 * one") for k in range(len(states))]
    flow = ", ".join([*ends[half:], *(f"-({x})" for x in ends[:half])])
    exec(
        "\n".join(
            [f"def f(t, z):\n  {', '.join(names[u] for u in states)}, = z", *lines, f"  return [{flow}]"]
        ),
        scope,
    )
    return scope["f"]  # type: ignore[no-any-return]


def extrapolated(
    f: Callable[[Any, Numbers], Numbers], z: Numbers, t: Any, length: Any, halved: int = 0
) -> Numbers:
    """Gragg's modified midpoint rule with 2, 4, 6, ... steps, extrapolated to none; where it is slow, half by half."""
    rows: list[list[Numbers]] = []
    for j in range(1, 20):
        h, before, now = length / (2 * j), z, [a + length / (2 * j) * b for a, b in zip(z, f(t, z))]
        for k in range(1, 2 * j):
            before, now = now, [a + 2 * h * b for a, b in zip(before, f(t + k * h, now))]
        last = [(a + b + h * c) / 2 for a, b, c in zip(before, now, f(t + length, now))]
        row = [last]
        for k in range(1, j):
            ratio = mp.mpf(j) ** 2 / mp.mpf(j - k) ** 2 - 1
            row.append([a + (a - b) / ratio for a, b in zip(row[-1], rows[-1][k - 1])])
        rows.append(row)
        if j > 2 and max(abs(a - b) for a, b in zip(row[-1], rows[-2][-1])) < mp.mpf(10) ** -REFERENCE:
            return row[-1]
    if halved == MOST_HALVES:
        raise ArithmeticError("the reference does not converge")
    middle = extrapolated(f, z, t, length / 2, halved + 1)
    return extrapolated(f, middle, t + length / 2, length / 2, halved + 1)


def solution(system: System, z: Numbers, until: Fraction) -> Numbers:
    """The state that a start at t = 0 leads to, a quarter of a unit of time at once."""
    f, n = rate(system), -(-until // Fraction(1, 4))
    piece = mp.mpf(until.numerator) / (until.denominator * n)
    for k in range(n):
        z = extrapolated(f, z, k * piece, piece)
    return z


# --- measurements ---------------------------------------------------------------------------------------------
@dataclass
class Measured:
    order: float | None  # None: not asymptotic before its errors are those of rounded weights
    untrue: list[str] = field(default_factory=list)  # certificates that do not hold


class Subject:
    """One energy, its solution, and what each method makes of it."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.system = random_energy(seed)
        self.facts: Facts = facts_of(self.system)
        self.start = start(seed, sum(s.var.size for s in self.system.states))

    @cached_property
    def true(self) -> Numbers:
        return solution(self.system, self.start, UNTIL)

    def methods(self, names: Sequence[str]) -> Iterator[Method]:
        for m in (BY_NAME[name] for name in names):
            if m.splits and not objection(m, self.system, self.facts):
                yield m

    def measure(self, m: Method) -> Measured:
        program = program_of(self, m)
        run, certificate = in_digits(program), verify(program)
        order = self.order(run, m.order)
        wrong = untrue(certificate, run, self.start)
        if certificate.consistent and order is not None and order < 1 - BELOW:
            wrong.append("consistent")
        return Measured(order, wrong)

    def order(self, run: Run, claimed: int) -> float | None:
        """The slope of the state error where it is asymptotic, or where it has settled; None where it does neither."""
        n, errors, slopes = max(2, 16 // claimed), list[float](), list[float]()
        for k in range(HALVINGS):
            end = run(self.start, n * 2**k, mp.mpf(UNTIL.numerator) / (UNTIL.denominator * n * 2**k))
            errors.append(float(distance(end, self.true)))
            if errors[-1] < ROUNDED:
                break
            if len(errors) > 1:
                slopes.append(float(mp.log(errors[-2] / errors[-1], 2)))
                if claimed - BELOW <= slopes[-1] <= claimed + ABOVE:
                    break
        settled = slopes and (
            slopes[-1] >= claimed - BELOW or len(slopes) > 1 and abs(slopes[-1] - slopes[-2]) < SETTLED
        )
        return slopes[-1] if settled else None


def program_of(subject: Subject, m: Method) -> Program:
    return replace(lower(step_of(Job(subject.system, subject.facts, m, Goal(None)))), claims=())


def untrue(certificate: Certificate, run: Run, z: Numbers) -> list[str]:
    """The certificates that numbers contradict."""
    dt, steps = mp.mpf(1) / 8, 3
    half = len(z) // 2
    there = run(z, steps, dt)
    mirrored = [*there[:half], *(-x for x in there[half:])]
    again = run(mirrored, steps, dt) if certificate.reversible else []
    misses = {
        "symmetric": lambda: distance(run(there, steps, -dt, steps * dt), z),
        "reversible": lambda: distance([*again[:half], *(-x for x in again[half:])], z),
        "symplectic": lambda: defect(run, z, dt),
    }
    return [name for name, miss in misses.items() if certificate[name] and miss() > EXACT]


def distance(a: Numbers, b: Numbers) -> Any:
    return max(abs(x - y) for x, y in zip(a, b))


def defect(run: Run, z: Numbers, dt: Any) -> Any:
    """|MᵀJM - J| of one step, derivatives by central differences of order 4."""
    e, half, columns = mp.mpf(10) ** -9, len(z) // 2, []
    with mp.workdps(DIGITS + 12):
        for k in range(len(z)):
            at = {w: run([x + w * e * (i == k) for i, x in enumerate(z)], 1, dt) for w in (-2, -1, 1, 2)}
            columns.append(
                [(8 * (b - a) - (d - c)) / (12 * e) for c, a, b, d in zip(at[-2], at[-1], at[1], at[2])]
            )
        worst = mp.mpf(0)
        for i, a in enumerate(columns):
            for j, b in enumerate(columns):
                form = sum(a[k] * b[k + half] - a[k + half] * b[k] for k in range(half))
                worst = max(worst, abs(form - ((j == i + half) - (i == j + half))))
        return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("methods", nargs="*", default=[m.name for m in BY_NAME.values() if m.splits])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first energy")
    options = parser.parse_args()
    found: dict[str, list[tuple[int, Measured]]] = {name: [] for name in options.methods}
    done = 0
    with mp.workdps(DIGITS):
        try:
            for seed in range(options.first, options.first + options.count):
                subject = Subject(seed)
                try:
                    measured = [(m.name, subject.measure(m)) for m in subject.methods(options.methods)]
                except ArithmeticError as error:
                    print(f"energy {seed}: {error}")
                    continue
                for name, result in measured:
                    found[name].append((seed, result))
                done += 1
        except KeyboardInterrupt:
            print("interrupted")  # what has been measured is told
    print(f"{done} random energies; measured order >= claimed - {BELOW}, in {DIGITS} digits")
    print(
        f"{'method':20}{'order':>6}{'energies':>9}{'lowest':>8}{'median':>8}{'too low':>8}{'unmeasured':>11}{'untrue':>7}"
    )
    bad = Counter[str]()
    for name, results in found.items():
        claimed, orders = BY_NAME[name].order, sorted(r.order for _, r in results if r.order is not None)
        low = [seed for seed, r in results if r.order is not None and r.order < claimed - BELOW]
        wrong = [(seed, r.untrue) for seed, r in results if r.untrue]
        lost = sum(r.order is None for _, r in results)
        bad[name] = len(low) + len(wrong)
        ends = f"{orders[0]:8.2f}{orders[len(orders) // 2]:8.2f}" if orders else " " * 16
        print(f"{name:20}{claimed:6}{len(results):9}{ends}{len(low):8}{lost:11}{len(wrong):7}")
        if low or wrong:
            print(f"    too low: {low[:10]}, untrue: {wrong[:5]}")
    raise SystemExit(bool(sum(bad.values())))


if __name__ == "__main__":
    main()
