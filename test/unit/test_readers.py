"""Which reader reads a program, and what is said of an instruction that it has no rule for?  Never yes."""

import pickle
import re
from functools import lru_cache
from pathlib import Path

import pytest

import tinyphysics as tp
from tinyphysics.structure import FIVE
from tinyphysics.tpir import parse, verify
from tinyphysics.tpir.program import isa, values
from tinyphysics.tpir.proof import readers
from tinyphysics.tpir.proof.certificate import Certificate, Verdict
from tinyphysics.tpir.verifier import READERS, reader_of


@tp.hamiltonian
def quartic(q, p):
    return p**2 / 2 + q**2 / 2 + q**4 / 4


@tp.hamiltonian
def mixed(q, p):
    return (p**2 + 1) * (q**2 + 1) / 2


@tp.hamiltonian
def spring(q, p):
    return p**2 / 2 + q**2 / 2


@tp.lagrangian
def rod(q, v):
    return v**2 * (1 + q**2) / 2 - q**2 / 2


@tp.hamiltonian
def planets(q: tp.Array[3, 3], p: tp.Array[3, 3], m: tp.Vec[3]):
    r = tp.sqrt(((q[:, None] - q[None, :]) ** 2).sum(-1))
    return ((p**2).sum(-1) / (2 * m)).sum() - tp.pair_sum(m[:, None] * m[None, :] / r)


@tp.map(pairs=[("q", "p")])
def standard(q, p, k: float = 0.5):
    p = p + k * tp.sin(q)
    return q + p, p


@tp.hamiltonian(bracket="se3")
def top(L: tp.Vec[3], G: tp.Vec[3]):
    return L[0] ** 2 / 2 + L[1] ** 2 / 4 + L[2] ** 2 / 6 + G[2]


@tp.hamiltonian(bracket=tp.magnetic(lambda q: 1 + q[0] / 2))
def charge(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2


@tp.hamiltonian
def mass(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 + q[1]


@tp.constraint
def length(q: tp.Vec[2]):
    return q @ q - 1


# fmt: off
CASES = [  # the reader, a program that it certifies
    ("KeplerReader",      planets,  dict(method="wisdom_holman")),
    ("DoubledReader",     mixed,    dict(method="extended_phase_space")),
    ("CollocationReader", mixed,    dict(method="gauss4")),
    ("CollocationReader", rod,      dict(method="variational_midpoint")),
    ("OscillatorReader",  quartic,  dict(method="interaction")),
    ("RotationReader",    top,      dict(method="rotations")),
    ("ConstraintReader",  mass + length, dict(method="rattle")),
    ("ExactReader",       charge,   dict(method="axes")),
    ("PusherReader",      charge,   dict(method="boris")),
    ("MapReader",         standard, {}),
    ("JumpReader",        spring,   dict(propagator="exact")),
    ("BathReader",        quartic,  dict(temperature=1.0)),
    ("ThermostatReader",  quartic,  dict(temperature=1.0, bath="bussi")),
    ("StretchedReader",   quartic,  dict(temperature=1.0, bath="nose_poincare")),
    ("MemoryReader",      quartic,  dict(temperature=1.0, bath=tp.gle(kernel=[(1.0, 0.5)]), method="baoab")),
    ("BrownianReader",    quartic,  dict(temperature=1.0, bath="brownian", method="brownian")),
    ("FrictionReader",    quartic,  dict(method="leapfrog", friction=0.1)),
    ("ShearReader",       quartic,  dict(method="leapfrog")),
]
# fmt: on


START = dict(
    q=[[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 3.0, 0.0]],
    p=[[0.0, 0.0, 0.0], [0.0, 1e-3, 0.0], [-6e-4, 0.0, 0.0]],
    m=[1.0, 1e-3, 1e-3],
)


@lru_cache
def listing(name, method):
    system, options = next(
        (system, options) for n, system, options in CASES if (n, method_of(options)) == (name, method)
    )
    sim = tp.compile(system, **({} if system is standard else {"dt": 0.1}), **options)
    if system is planets:  # the order of its bodies is that of the start
        sim.evolve(**START, steps=1)
    return sim.ir("tpir")


def method_of(options):
    return options.get("method", "")


@pytest.fixture
def nudge(monkeypatch):
    """An instruction that some room has added, and no reader has heard of."""
    row = isa.InstructionRow(
        "s, value", "S", "s := value", "r", value=values.source, kind="update", numbers="by_value"
    )
    monkeypatch.setitem(isa.ISA, "NUDGE", row)


@pytest.mark.parametrize(("name", "system", "options"), CASES)
def test_a_program_is_read_by_its_reader(name, system, options):
    program = parse(listing(name, method_of(options)))
    reader = reader_of(program)
    certificate = verify(program)
    most = (
        "volume-preserving" if name == "PusherReader" else next(iter(certificate))
    )  # a turn about B(q) shows no more
    assert type(reader).__name__ == name and certificate[most]


def test_every_reader_has_a_program_here():
    assert {r.__name__ for r in READERS} == {name for name, *_ in CASES}


def test_readers_are_found_in_their_folder_and_ranked_by_themselves():
    files = {f.stem for f in Path(readers.__file__).parent.glob("*.py")}
    assert {r.__module__.rpartition(".")[2] for r in READERS} < files
    ranks = [r.rank for r in READERS]
    assert ranks == sorted({*ranks}) and READERS[-1].__name__ == "ShearReader"


def with_line(text, section, line):
    claims = "\n".join(t for t in text.splitlines() if not t.startswith("claim"))
    return claims.replace(f"{section}:\n", f"{section}:\n{line}\n", 1)


@pytest.mark.parametrize(("name", "system", "options"), [c for c in CASES if c[0] != "JumpReader"])
@pytest.mark.parametrize("kind", ["update", "value"])
def test_an_instruction_without_a_rule_is_never_a_yes(name, system, options, kind, monkeypatch):
    """Neither where it is said to move a state nor where it writes one under another name."""
    row = isa.InstructionRow(
        "s, value", "S", "s := value", "r", value=values.source, kind=kind, numbers="turn"
    )
    text = listing(name, method_of(options))
    shape = (
        ":f64[3, 3]"
        if system is planets
        else ":f64[3]"
        if system is top
        else ":f64[2]"
        if system is charge or name == "ConstraintReader"
        else ""
    )
    monkeypatch.setitem(isa.ISA, "NUDGE", row)
    program = parse(with_line(text, "step", f"  NUDGE S1{shape}, S0"))
    assert type(reader_of(program)).__name__ == (name if name != "MapReader" else "ShearReader")
    shown = verify(program)
    assert not any(shown.values())
    assert name == "MapReader" or any("NUDGE" in v.because for v in shown.values())


def test_nothing_stands_beside_a_jump(nudge):
    text = listing("JumpReader", "")
    with pytest.raises(tp.errors.VerifyError, match="beside a PROPAGATE"):
        verify(parse(with_line(text, "step", "  NUDGE S1, S0")))


# --- certificates -----------------------------------------------------------------------------------------
def test_a_certificate_of_pairs_has_five_verdicts_in_order():
    c = tp.compile(quartic, dt=0.1).certificate
    assert list(c) == list(FIVE) and c["volume-preserving"] is c.volume_preserving is c["volume_preserving"]
    assert [name for name, _ in c.items()] == list(c) and len({c, c | {}}) == 1


def test_a_certificate_takes_further_verdicts():
    c = Certificate({"symplectic": Verdict(False, "it has a bath"), "conformal": Verdict(True, "one factor")})
    assert c.conformal and not c.symplectic and c.level == "conformal"
    assert not hasattr(c, "reversible") and pickle.loads(pickle.dumps(c)) == c
    assert repr(c | {"symplectic": Verdict(True, "so")}).startswith(
        "Certificate(symplectic=Verdict(holds=True"
    )


# --- a line of another kind among those that a reader has rules for ------------------------------------------
DECAY = """  ELEM T9000, mul, 0.1, $dt
  ELEM T9001, neg, T9000
  ELEM T9002, exp, T9001
  WIDE T9002
  ELEM T9003:type, mul, S1, T9002.1
  RELAX S1:type, T9003, 0.1
"""
HEAT = """  ELEM T9100, mul, 0.2, $dt
  ELEM T9101, neg, T9100
  ELEM T9102, exp, T9101
  ELEM T9103, add, T9101, T9101
  ELEM T9104, expm1, T9103
  ELEM T9105, neg, T9104
  ELEM T9108, sqrt, T9105
  WIDE T9102
  WIDE T9108
  NOISE T9109:type, normal, 0.0, (77,size)
  ELEM T9110:type, mul, T9108.1, T9109
  FMA T9111:type, S1, T9102.1, T9110
  BATH S1:type, T9111, langevin, 1.0, 1.0, 1.0, 0.2
"""


def for_numbers(lines: str, size: int) -> str:
    """Lines for a momentum of so many numbers; one number needs no expanding."""
    lines = lines.replace("size", str(size))
    if size == 1:
        return (
            re.sub(r"  WIDE .*\n", "", lines).replace(":type", "").replace(".1,", ",").replace("2.1\n", "2\n")
        )
    lines = re.sub(
        r"  WIDE (.*)\n", r"  MOVE \1.2:f64[1], reshape, \1\n  MOVE \1.1:type, expand, \1.2\n", lines
    )
    return lines.replace(":type", f":f64[{size}]")


@tp.hamiltonian
def tumbling(R: tp.Rotor, L: tp.Vec[3]):
    return (L**2).sum() / 2 + tp.rotate(R, [0.0, 0.0, 1.0])[2]


@tp.hamiltonian
def unit(q, p):
    return p**2 / 2 + q**4 / 4


MIXED_WITH = [  # a program whose verdict is about one kind of line, and a line of another kind
    (unit, dict(temperature=1.0), DECAY),
    (unit, dict(temperature=1.0, bath="andersen"), DECAY),
    (unit, dict(temperature=1.0, bath="bussi"), DECAY),
    (unit, dict(temperature=1.0, bath="bussi"), HEAT),
    (unit, dict(temperature=1.0, bath="nose_hoover"), DECAY),
    (unit, dict(temperature=1.0, bath="nose_hoover"), HEAT),
    (unit, dict(temperature=1.0, bath="brownian"), DECAY),
    (unit, dict(temperature=1.0, bath="brownian"), HEAT),
    (unit, dict(temperature=1.0, bath=tp.gle(kernel=[(2.0, 0.5)])), DECAY),
    (unit, dict(temperature=1.0, bath=tp.gle(kernel=[(2.0, 0.5)])), HEAT),
    (unit, dict(friction=0.3), HEAT),
    (unit, {}, DECAY),
    (unit, {}, HEAT),
    (charge, dict(method="boris"), HEAT),
    (tumbling, dict(temperature=1.0), DECAY),
    (tumbling, dict(friction=0.3), HEAT),
]


@pytest.mark.parametrize("system, options, line", MIXED_WITH)
def test_a_line_of_another_kind_takes_every_law_away(system, options, line):
    """What keeps a law alone need not keep it beside friction, nor friction its factor beside a bath."""
    text = tp.compile(system, 0.1, **options).ir("tpir")
    line = for_numbers(line, {charge: 2, tumbling: 3}.get(system, 1))
    head, step = text.split("step:\n")
    laws = (
        "canonical",
        "measure-preserving",
        "symplectic",
        "volume-preserving",
        "conformally-symplectic",
        "volume-factor",
    )
    program = parse(
        "\n".join(x for x in f"{head}step:\n{line}{step}".split("\n") if not x.startswith("claim"))
    )
    before = verify(parse(text))
    assert any(before.get(law) for law in laws)
    after = verify(program)
    expected = {"conformally-symplectic", "volume-factor"} if not options and "RELAX" in line else set()
    assert {law for law in laws if after.get(law)} <= expected
