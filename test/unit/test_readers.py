"""Which reader reads a program, and what is said of an instruction that it has no rule for?  Never yes."""

import pickle
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
