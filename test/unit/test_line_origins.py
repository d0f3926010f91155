"""sim.lines(level): every line of a listing has the lines that it comes from, up to the user's."""

from pathlib import Path

import pytest

import tinyphysics as tp
from tinyphysics.cli import load
from tinyphysics.emit.text.records import recorded
from tinyphysics.errors import InputError, PlanError
from tinyphysics.runtime.api.compile import compile as compiled
from tinyphysics.runtime.api.lines import ABOVE, Tower
from tinyphysics.runtime.api.lines import LEVELS as EVERY

GALLERY = sorted((Path(__file__).parents[2] / "examples" / "explore").glob("*.py"))
LEVELS = tuple(level for level in EVERY if level != "wgsl")  # which is of float32
BELOW = [level for level in LEVELS if level not in ("source", "uop", "facts", "plan")]


@tp.hamiltonian
def henon(q: tp.Vec[2], p: tp.Vec[2], lam: float = 1.0):
    kinetic = p @ p / 2
    well = q @ q / 2
    cubic = lam * (q[0] ** 2 * q[1] - q[1] ** 3 / 3)
    return kinetic + well + cubic


FIRST = henon.site.line  # of the decorator
KINETIC, WELL, CUBIC, SUM = (FIRST + k for k in (2, 3, 4, 5))


@pytest.fixture(scope="module")
def tower():
    return Tower(tp.compile(henon, dt=0.05))


@pytest.mark.parametrize("level", [x for x in LEVELS if x not in ("source", "facts", "plan")])
def test_the_texts_of_lines_are_the_listing(tower, level):
    """Marks and line records change no instruction."""
    assert [line.text for line in tower.level(level)] == tower.sim.ir(level).splitlines()


def users(line):
    return {s.line for s in line.user}


def test_a_line_of_a_derivative_names_the_term_that_it_is_of(tower):
    lines = {line.text.strip(): users(line) for line in tower.level("kernel")}
    steps = [line for line in tower.level("kernel") if line.text.strip().startswith("%9 = mul")]
    assert all(users(line) <= {CUBIC} for line in steps)  # lam * y is of the cubic term alone
    assert any(CUBIC in found and KINETIC not in found for found in lines.values())
    fma = [line for line in tower.level("kernel") if "= fma" in line.text]
    drifts = [line for line in fma if users(line) == {KINETIC, SUM}]
    assert len(drifts) == 2  # q0 and q1 move by dH/dp alone


def test_forces_in_machine_code_come_from_the_potential(tower):
    for level in ("llvm", "asm", "ptx", "wasm"):
        found = [users(line) for line in tower.level(level) if line.is_code]
        assert any(f == {CUBIC} for f in found), level
        assert any(KINETIC in f and WELL not in f for f in found), level


def test_above_are_lines_of_the_level_above(tower):
    for level in LEVELS:
        over = tower.level(ABOVE[level]) if ABOVE[level] else ()
        for line in tower.level(level):
            assert all(0 <= k < len(over) for k in line.above)
            assert {s for k in line.above for s in over[k].user} <= set(line.user)


def share(tower, level):
    code = [line for line in tower.level(level) if line.is_code]
    return sum(line.has_origin for line in code) / len(code)


def complete(sim):
    tower = Tower(sim)
    energy = {s for line in tower.level("uop") for s in line.user}
    for level in BELOW:
        assert share(tower, level) >= 0.95, level
        assert energy <= {s for line in tower.level(level) for s in line.user}, level


@pytest.mark.parametrize(
    "file", [f if f.stem == "trojan" else pytest.param(f, marks=pytest.mark.all) for f in GALLERY],
    ids=lambda f: f.stem,
)  # fmt: skip
def test_every_line_of_an_energy_is_reached_on_every_level(file):
    assert len(GALLERY) == 20
    found = load(str(file))
    complete(compiled(found.system.bind({}), found.dt, **found.options))


@pytest.mark.all
@pytest.mark.parametrize("options", [{"precision": "dd"}, {"precision": "compensated"}, {"precision": "float32"},
                                     {"method": "yoshida4"}, {"method": "gauss4"}], ids=str)  # fmt: skip
def test_other_methods_and_precisions_have_origins_too(options):
    tower = Tower(tp.compile(henon, dt=0.05, **options))
    for level in ("tpir", "kernel", "llvm", "asm", "wasm"):
        assert share(tower, level) >= 0.95, level


@pytest.mark.parametrize(
    "file", [f if f.stem == "henon_heiles" else pytest.param(f, marks=pytest.mark.all) for f in GALLERY],
    ids=lambda f: f.stem,
)  # fmt: skip
def test_every_line_of_an_energy_is_reached_in_wgsl(file):
    found = load(str(file))
    try:
        sim = compiled(found.system.bind({}), found.dt, **{**found.options, "precision": "float32"})
    except PlanError as error:
        if "implicit_midpoint" not in str(error):
            raise
        pytest.skip("it solves equations, which float32 does not support yet")
    tower = Tower(sim)
    assert [line.text for line in tower.level("wgsl")] == sim.ir("wgsl").splitlines()
    energy = {s for line in tower.level("uop") for s in line.user}
    assert share(tower, "wgsl") >= 0.95
    assert energy <= {s for line in tower.level("wgsl") for s in line.user}


def test_records_are_beside_instructions():
    text = "define void @f(ptr %a) #0 {\nentry:\n  %v1 = load double, ptr %a\n  ret void\n}\n"
    made = recorded(text).splitlines()
    assert made[2].startswith("  %v1 = load double, ptr %a, !dbg !") and made[1] == "entry:"


def test_what_is_not_known_is_refused_in_words():
    sim = tp.compile(henon, dt=0.05)
    with pytest.raises(InputError, match="no level `asn`.*\n.*Did you mean `asm`"):
        sim.lines("asn")

    @tp.hamiltonian
    def chain(q: tp.Vec[4096], p: tp.Vec[4096]):
        return (p * p).sum() / 2 + ((tp.roll(q, -1) - q) ** 4).sum()

    long = tp.compile(chain, dt=0.05)
    assert all(line.has_origin for line in long.lines("tpir") if line.is_code)
    with pytest.raises(PlanError, match="runs in loops"):
        long.lines("llvm")
