"""Do programs and reports read as they did?  Golden text; `pytest --update-golden` accepts a change."""

import importlib.util
import math
import re
from pathlib import Path

import pytest

import tinyphysics as tp
from tinyphysics.tpir import parse, verify, vm

GOLDEN = Path(__file__).parents[1] / "golden"


def load(path):
    """The systems lie beside the golden files: their lines are quoted in them."""
    spec = importlib.util.spec_from_file_location("golden_systems", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


systems = load(GOLDEN / "systems.py")

REPORTS = {  # system -> method
    "oscillator": "auto",
    "kepler": "auto",
    "pendulum": "yoshida4",
    "henon_heiles": "auto",
    "driven_pendulum": "leapfrog_dkd",
    "swirl": "auto",
    "henon": "auto",
    "bead": "auto",
}


def compiled(name, method="auto"):
    system = getattr(systems, name)
    return tp.compile(system, None if system.kind == "map" else 0.01, method=method, propagator="loop")


@pytest.mark.requirement("S3-15")
@pytest.mark.parametrize("method", ["symplectic_euler", "leapfrog"])
def test_the_program_of_the_oscillator(golden, method):
    golden(f"oscillator.{method}.tpir", compiled("oscillator", method).ir("tpir"))


def test_the_program_of_henon_heiles_in_other_units(golden):
    sim = tp.compile(systems.henon_heiles, 0.01, scale="auto", propagator="loop")
    golden("henon_heiles.scaled.tpir", sim.ir("tpir"))


@pytest.mark.parametrize("name", REPORTS)
def test_the_report_of_each_system(golden, name):
    golden(f"{name}.explain.txt", f"{compiled(name, REPORTS[name]).explain('full').portable()}\n")


def test_eight_systems_are_kept_and_no_file_is_left_over():
    files = {p.name for p in GOLDEN.iterdir() if p.suffix in (".txt", ".tpir")}
    assert files == {f"{n}.explain.txt" for n in REPORTS} | {
        f"oscillator.{m}.tpir" for m in ("symplectic_euler", "leapfrog")
    } | {"henon_heiles.scaled.tpir", "routing.txt"}
    assert len(REPORTS) == 8


@pytest.mark.parametrize("file", sorted(GOLDEN.glob("*.tpir")), ids=lambda p: p.name)
def test_a_golden_program_reads_back_and_verifies(file):
    program = parse(file.read_text())
    assert str(program) == file.read_text() and verify(program).symplectic


def test_reports_do_not_depend_on_the_backend():
    for name in ("kepler", "swirl"):
        texts = {
            str(tp.compile(getattr(systems, name), 0.01, backend=b).explain("full").portable())
            for b in ("auto", "python")
        }
        assert len(texts) == 1


# --- the oscillator, phase by phase (S3-16 to S3-18) -----------------------------------------------------
@pytest.fixture
def oscillator():
    return compiled("oscillator", "symplectic_euler").tpir


@pytest.mark.requirement("S3-16")
def test_the_energy_is_not_computed_in_a_step_that_nobody_watches(oscillator):
    assert [i.op for i in oscillator.step] == ["GRAD_INIT", "POISSON_J", "SYMP_STEP"] * 2
    assert not any(i.dst.kind == "E" for i in oscillator.step if hasattr(i.dst, "kind"))


@pytest.mark.requirement("S3-16")
@pytest.mark.parametrize("q, p", [(1.0, 0.25), (0.1, -3.7), (1e-3, 1e3)])
def test_the_declared_energy_is_h_to_one_ulp(oscillator, q, p):
    machine = vm.Machine(oscillator)
    total = sum(machine.energies(machine.start({"q": q, "p": p}, {}, 0.01)))
    exact = math.fsum([p * p / 2, q * q / 2])
    assert abs(total - exact) <= math.ulp(exact)
    out = compiled("oscillator").evolve(q=q, p=p, steps=0)
    assert abs(out.energy[0] - exact) <= math.ulp(exact)


@pytest.mark.requirement("S3-17")
def test_the_backward_pass_is_generated_and_short(oscillator):
    """0.5*2*q is q: the gradients are the analytic ones, bit for bit."""
    gradients = {str(i.dst): str(i.args[0]) for i in oscillator.step if i.op == "GRAD_INIT"}
    assert gradients == {"G1": "S1", "G0": "S0"}


@pytest.mark.requirement("S3-18")
@pytest.mark.parametrize("name", ["oscillator", "kepler", "henon_heiles"])
def test_one_pass_and_one_negate_for_every_canonical_pair(name):
    program = compiled(name, "symplectic_euler").tpir
    kinds = [i.args[1].text for i in program.step if i.op == "POISSON_J"]
    pairs = len(program.states) // 2
    assert sorted(kinds) == ["negate"] * pairs + ["pass"] * pairs


# --- the page about the differences ------------------------------------------------------------------------
@pytest.mark.requirement("S3-15")
def test_the_page_shows_our_listing_and_explains_every_correction():
    page = (GOLDEN / "oscillator.md").read_text()
    blocks = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    assert blocks[1] == (GOLDEN / "oscillator.symplectic_euler.tpir").read_text()
    assert all(f"C-0{k}" in page for k in (2, 3, 4))
    printed = [line for line in blocks[0].splitlines() if re.match(r"\d\d ", line)]
    assert len(printed) == 16
