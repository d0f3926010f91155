"""Are the files that people have read right, in the units that systems use, and is a wrong one named with its line?"""

import sys
import types
from pathlib import Path

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.physics import io, molecular, starts
from tinyphysics.physics.io.atoms import UNITS
from tinyphysics.physics.io.elements import WEIGHTS, element_of
from tinyphysics.physics.io.horizons import GM, SUN, G
from tinyphysics.physics.particles import BODIES, GAUSS, PLANETS, gravity, solar_system

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture
def altered(tmp_path):
    """A file of test/data with a line changed, by its number from 1; None takes the line and all that follow away."""

    def write(name, line, text, other=None):
        lines = (DATA / name).read_text().splitlines()
        new = lines[: line - 1] if text is None else [*lines[: line - 1], text, *lines[line:]]
        path = tmp_path / (other or name)
        path.write_text("\n".join(new) + "\n")
        return path

    return write


def line_of(name, start):
    """The number of the first line that begins so."""
    return next(
        k for k, line in enumerate((DATA / name).read_text().splitlines(), 1) if line.startswith(start)
    )


# --- PDB and mmCIF --------------------------------------------------------------------------------
@pytest.mark.parametrize(("read", "file"), [(io.read_pdb, "dipeptide.pdb"), (io.read_mmcif, "dipeptide.cif")])
def test_a_molecule_is_read_in_nanometres(read, file):
    pytest.importorskip("gemmi")
    atoms = read(DATA / file)
    assert len(atoms) == 12 and atoms.units == UNITS
    assert atoms.q[0] == pytest.approx([0.8, 0.9, 1.0]), "the first atom is at 8, 9, 10 ångström"
    assert np.diag(atoms.box) == pytest.approx([2.5] * 3)
    assert atoms.species.count("C") == 6 and atoms.species[-1] == "Na"
    assert atoms.m[atoms.names.index("CA")] == WEIGHTS["C"], "CA of alanine is carbon, not calcium"
    assert atoms.charge.sum() == 1.0 and atoms.charge[-1] == 1.0
    assert atoms.names.count("CB") == 1 and atoms.info["alternatives left out"] == 1
    assert atoms.residues[4].startswith("ALA 2")
    assert np.linalg.norm(atoms.q[4] - atoms.q[3]) == pytest.approx(0.1449, abs=2e-4), (
        "N and CA are 1.449 Å apart"
    )
    assert read(DATA / file, model=2).q[0] == pytest.approx([0.825, 0.925, 1.025])


def test_bonds_of_a_pdb_file_are_those_of_conect():
    pytest.importorskip("gemmi")
    atoms = io.read_pdb(DATA / "dipeptide.pdb")
    lengths = np.linalg.norm(atoms.q[atoms.bonds[:, 0]] - atoms.q[atoms.bonds[:, 1]], axis=1)
    assert len(atoms.bonds) == 10 and (lengths > 0.1).all() and (lengths < 0.16).all()


WRONG_PDB = [
    (
        6,
        "ATOM      2  C   ACE A   1       9.5x7   9.000  10.000",
        "dipeptide.pdb:6",
        "coordinate x, which is in columns 31 to 38",
    ),
    (6, "ATOM      2  C   ACE A   1       9.507", "dipeptide.pdb:6", "ends at column 38"),
    (3, "CRYST1   25.000   25.000   25.0O0  90.00  90.00  90.00 P 1", "dipeptide.pdb:3", "c of the cell"),
    (
        6,
        "ATOM      2  Q   ACE A   1       9.507   9.000  10.000  1.00 10.00           X  ",
        "has no element",
        "columns 77 and 78",
    ),
]


@pytest.mark.parametrize(("line", "text", "where", "expected"), WRONG_PDB)
def test_a_wrong_pdb_line_is_named(altered, line, text, where, expected):
    pytest.importorskip("gemmi")
    with pytest.raises(tp.StoreError) as error:
        io.read_pdb(altered("dipeptide.pdb", line, text))
    assert where in str(error.value) and expected in str(error.value)


def test_a_wrong_cif_is_named_with_its_line(altered, tmp_path):
    pytest.importorskip("gemmi")
    first = line_of("dipeptide.cif", "ATOM")
    row = (DATA / "dipeptide.cif").read_text().splitlines()[first + 1]
    with pytest.raises(tp.StoreError, match=rf"dipeptide.cif:{first + 2}: `wide` is not Cartn_y"):
        io.read_mmcif(altered("dipeptide.cif", first + 2, row.replace("10.06", "wide")))
    with pytest.raises(tp.StoreError, match=r"dipeptide.cif:\d+: this is not CIF: Wrong number of values"):
        io.read_mmcif(altered("dipeptide.cif", first + 2, "ATOM 2"))
    (tmp_path / "other.cif").write_text("data_x\n_cell.length_a 3\n")
    with pytest.raises(tp.StoreError, match="no loop of atoms"):
        io.read_mmcif(tmp_path / "other.cif")


def test_a_missing_model_and_a_missing_file_are_said(tmp_path):
    pytest.importorskip("gemmi")
    with pytest.raises(tp.InputError, match="model=3 .* which has 2"):
        io.read_pdb(DATA / "dipeptide.pdb", model=3)
    with pytest.raises(tp.StoreError, match="could not be read: No such file"):
        io.read_pdb(tmp_path / "nowhere.pdb")
    with pytest.raises(tp.StoreError, match="no ATOM or HETATM record"):
        io.read_pdb(DATA / "pendulums.csv")
    with pytest.raises(tp.StoreError, match="this is mmCIF, not PDB"):
        io.read_pdb(DATA / "dipeptide.cif")


# --- GROMACS --------------------------------------------------------------------------------------
def test_a_gro_file_has_velocities_and_masses_by_name():
    atoms = io.read_gro(DATA / "water.gro")
    assert len(atoms) == 11 and atoms.species == ("O", "H", "H") * 3 + ("Na", "Cl")
    assert atoms.q[0].tolist() == [0.23, 0.628, 0.113] and atoms.v[0].tolist() == [0.7143, -0.8945, 0.1463]
    assert np.diag(atoms.box).tolist() == [1.8206] * 3 and atoms.info["time"] == 0.5
    assert np.linalg.norm(atoms.q[1] - atoms.q[0]) == pytest.approx(0.1, abs=1e-3)
    assert atoms.residues[3] == "SOL 2" and atoms.charge is None
    assert 2 * (atoms.m * (atoms.v**2).sum(-1)).sum() / 2 / (3 * 11 * molecular.BOLTZMANN) == pytest.approx(
        300, rel=0.8
    )


def test_frames_wider_numbers_and_skewed_boxes(tmp_path):
    one = "a bead t= 1.5\n    1\n    1CH    CH2    1   0.12345   0.50000   0.25000\n"
    box = "   3.00000   2.50000   2.00000   0.00000   0.00000   1.00000   0.00000   0.50000   0.25000\n"
    (tmp_path / "two.gro").write_text(one + box + one.replace("0.12345", "0.98765") + box)
    last = io.read_gro(tmp_path / "two.gro", frame=-1, masses={"CH2": 14.027})
    assert last.q[0, 0] == 0.98765 and last.m.tolist() == [14.027] and last.v is None
    assert last.box.tolist() == [[3.0, 0.0, 0.0], [1.0, 2.5, 0.0], [0.5, 0.25, 2.0]]
    with pytest.raises(tp.InputError, match="frame=2 .* which has 2"):
        io.read_gro(tmp_path / "two.gro", frame=2)


WRONG_GRO = [
    (2, "eleven", "water.gro:2", "the number of atoms"),
    (4, "    1SOL    HW1    2   0.2x1   0.723   0.113", "water.gro:4", "the coordinate x in nm"),
    (4, "    1SOL    HW1    2   0.261", "water.gro:4", "not the line of an atom"),
    (3, "    1SOL     OW    1  0.23 0.6 0.113", "water.gro:3", "columns of one width"),
    (5, "    1SOL     MW    3   0.309   0.567   0.113", "water.gro:5", 'masses={"MW": 14.027}'),
    (5, "    1SOL    HW2    3   0.309   0.567   0.113", "water.gro:3", "10 of 11 atoms have velocities"),
    (14, "   1.82060   1.82060", "water.gro:14", "2 numbers for the box"),
    (14, None, "water.gro:13", "the file ends here"),
]


@pytest.mark.parametrize(("line", "text", "where", "expected"), WRONG_GRO)
def test_a_wrong_gro_line_is_named(altered, line, text, where, expected):
    with pytest.raises(tp.StoreError) as error:
        io.read_gro(altered("water.gro", line, text))
    assert where in str(error.value) and expected in str(error.value)


def test_elements_by_the_names_of_atoms():
    names = {("CA", "ALA"): "C", ("CA", "CA"): "Ca", ("HW1", "SOL"): "H", ("NA", "NA"): "Na", ("NA", "HEM"): "N",
             ("CL", "CL"): "Cl", ("1HB", "ALA"): "H", ("AR", "AR"): "Ar", ("MW", "SOL"): None}  # fmt: skip
    assert {key: element_of(*key) for key in names} == names


# --- LAMMPS ---------------------------------------------------------------------------------------
def test_a_data_file_is_converted_from_its_units():
    atoms = io.read_lammps(DATA / "butane.data")
    assert len(atoms) == 28 and atoms.units == UNITS and atoms.info["units of the file"] == "real"
    assert atoms.q[0] == pytest.approx([0.2, 0.25, 0.3]), "in the order of their numbers, in nm"
    assert np.diag(atoms.box) == pytest.approx([1.2] * 3)
    assert (len(atoms.bonds), len(atoms.angles), len(atoms.dihedrals)) == (26, 48, 54)
    lengths = np.linalg.norm(atoms.q[atoms.bonds[:, 0]] - atoms.q[atoms.bonds[:, 1]], axis=1)
    assert set(np.round(lengths, 4)) == {0.153, 0.109}, "image flags keep molecules whole"
    assert atoms.charge.sum() == pytest.approx(0.0, abs=1e-12) and set(atoms.species) == {"C", "H"}
    temperature = (atoms.m * (atoms.v**2).sum(-1)).sum() / (3 * 28 * molecular.BOLTZMANN)
    assert temperature == pytest.approx(300, rel=0.3), "fs became ps"
    assert atoms.info["not read"] == ["Pair Coeffs"] and atoms.types.tolist()[:5] == [0, 1, 1, 0, 2]


def test_units_and_styles_that_the_file_does_not_say_are_asked_for(altered):
    path = altered("butane.data", 1, "two butanes")
    with pytest.raises(tp.InputError, match="does not state its units"):
        io.read_lammps(path)
    metal, real = io.read_lammps(path, units="metal"), io.read_lammps(path, units="real")
    assert np.array_equal(metal.q, real.q) and np.allclose(1000 * metal.v, real.v, rtol=1e-14)
    with pytest.raises(tp.InputError, match="says units = real"):
        io.read_lammps(DATA / "butane.data", units="metal")
    bare = altered("butane.data", line_of("butane.data", "Atoms"), "Atoms")
    with pytest.raises(tp.InputError, match="does not state its atom style"):
        io.read_lammps(bare)
    assert len(io.read_lammps(bare, style="full")) == 28
    si = io.read_lammps(altered("butane.data", 1, "two"), units="si")
    assert si.m[0] == pytest.approx(12.011 * 6.02214076e26) and si.q[0, 0] == pytest.approx(2e9)


def test_reduced_units_and_a_sheared_box_stay_as_they_are():
    atoms = io.read_lammps(DATA / "chains.data", units="lj")
    assert atoms.units.startswith("reduced") and atoms.box.tolist() == [[6, 0, 0], [1.5, 6, 0], [0, 0, 6]]
    assert atoms.bonds.tolist() == [[0, 1], [1, 2], [3, 4], [4, 5]] and atoms.m.tolist() == [1.0] * 6


WRONG_LAMMPS = [
    ("28 atoms", "28 atomz", "no line of a header"),
    ("0 12.0 xlo xhi", "12.0 0 xlo xhi", "before it begins"),
    ("1 12.011", "1 heavy", "is not a mass"),
    ("28 2 3", "28 2 3 0.06 1.5 8.9", "6 columns for an atom"),
    ("28 2 3", "28 2 3 0.06 wide 8.908774 8.383029 1 0 0", "`wide` is not x of an atom"),
    ("18 2 1", "28 2 1 -0.18 1.133148 9.418591 7.500000 1 0 0", "atom 28 comes a second time"),
    ("1 1 1 2", "1 1 1 99", "there is no atom 99"),
]


@pytest.mark.parametrize(("start", "text", "expected"), WRONG_LAMMPS)
def test_a_wrong_data_line_is_named(altered, start, text, expected):
    line = line_of("butane.data", start)
    with pytest.raises(tp.StoreError) as error:
        io.read_lammps(altered("butane.data", line, text))
    assert f"butane.data:{line}: " in str(error.value) and expected in str(error.value)


def test_a_section_that_is_cut_off_says_what_the_header_announced(altered):
    with pytest.raises(tp.StoreError, match=r"`Dihedrals` ends here with 5\d lines; the header says 54"):
        io.read_lammps(altered("butane.data", len((DATA / "butane.data").read_text().splitlines()) - 1, None))


# --- states for systems ---------------------------------------------------------------------------
def test_a_file_starts_a_run_of_the_systems_that_want_it():
    atoms = io.read_gro(DATA / "water.gro")
    start = atoms.start(molecular.liquid)
    assert set(start) == {"q", "p", "m", "box"} and start["box"].tolist() == [1.8206] * 3
    assert np.array_equal(start["p"], atoms.m[:, None] * atoms.v)
    beads = io.read_lammps(DATA / "chains.data", units="lj")
    with pytest.raises(tp.InputError, match="skewed"):
        beads.start(molecular.polymer)
    with pytest.raises(tp.InputError, match="no argument `q`"):
        beads.start(tp.ode(lambda x: -x))


@pytest.mark.all
def test_a_run_goes_on_from_a_file_of_water():
    start = io.read_gro(DATA / "water.gro").start(molecular.liquid)
    out = tp.compile(molecular.liquid, dt=0.0005, backend="numpy").evolve(
        **start, epsilon=0.65, sigma=0.05, cutoff=0.9, steps=5
    )
    assert out.stopped is None and out.drift("energy") < 1e-3


def test_momenta_of_a_file_without_velocities_are_drawn_at_a_temperature():
    pytest.importorskip("gemmi")
    atoms = io.read_pdb(DATA / "dipeptide.pdb")
    assert not atoms.start(molecular.liquid)["p"].any(), "at rest"
    start = atoms.start(molecular.liquid, temperature=300.0, seed=4)
    assert np.array_equal(start["p"], starts.maxwell(12, 300.0, atoms.m, 4, kB=molecular.BOLTZMANN))
    with pytest.raises(tp.InputError, match="already has velocities"):
        io.read_gro(DATA / "water.gro").start(molecular.liquid, temperature=300.0)


@pytest.mark.all
def test_a_box_of_edges_and_a_simulation_are_taken_too():
    @tp.hamiltonian
    def beads(q: tp.Array["n", 3], p: tp.Array["n", 3], box: tp.Array[3, 3], bonds: tp.Array["b", 2]):
        r2 = tp.pair_distance2(q, box=box, cutoff=1.1, shift=True)
        return (
            (p**2).sum() / 2
            + tp.pair_sum(molecular.lennard_jones(r2))
            + molecular.harmonic_bonds(q, bonds, 9.0, 1.0, box).sum()
        )

    sim = tp.compile(beads, dt=0.001, backend="numpy")
    out = sim.evolve(**io.read_lammps(DATA / "chains.data", units="lj").start(sim), steps=3)
    assert out.stopped is None and out.q.shape[1:] == (6, 3)


# --- Horizons -------------------------------------------------------------------------------------
NAMES = ("sun", "earth", "jupiter", "saturn")
PLACES = [BODIES.index(b) for b in ("Sun", "Earth", "Jupiter", "Saturn")]


def test_tables_of_both_layouts_and_units_give_one_state():
    bodies = io.read_horizons(*(DATA / f"{n}.txt" for n in NAMES))
    made = solar_system()
    assert bodies.names == ("Sun", "Earth-Moon Barycenter", "Jupiter Barycenter", "Saturn Barycenter")
    assert bodies.epoch == 2451545.0 and bodies.frame == "Ecliptic of J2000.0" and len(bodies) == 4
    assert np.allclose(bodies.q, made["q"][PLACES], rtol=1e-14, atol=1e-17)
    assert np.allclose(bodies.v, made["p"][PLACES] / made["m"][PLACES][:, None], rtol=1e-13, atol=1e-19)
    assert np.allclose(bodies.m, made["m"][PLACES], rtol=1e-5)


def test_a_run_from_tables_meets_the_tables_of_the_next_days():
    """The tables were made by all planets together; four of them alone agree to what the others do in two days."""
    bodies, later = (
        io.read_horizons(*(DATA / f"{n}.txt" for n in NAMES), at=jd) for jd in (2451545.0, 2451547.0)
    )
    start = bodies.start(gravity)
    assert set(start) == {"q", "p", "m", "G"} and np.abs(start["p"].sum(0)).max() < 1e-18
    out = tp.compile(gravity, dt=0.25).evolve(**start, steps=8)
    moved, expected = out.final.q - start["q"], later.q - bodies.q
    shift = (moved - expected).mean(0)
    assert np.abs(moved - expected - shift).max() < 1e-7 and np.abs(expected).max() > 0.03


def test_masses_are_those_of_the_ephemeris():
    assert G == pytest.approx(GAUSS**2, rel=1e-10)
    systems = dict(zip(PLANETS, (1, 2, 3, 4, 5, 6, 7, 8)))
    for name, (*_, ratio) in PLANETS.items():
        assert SUN / GM[systems[name]] == pytest.approx(ratio, rel=1e-5), name
    assert GM[3] == pytest.approx(GM[399] + GM[301], rel=1e-9)


def test_the_centre_is_a_body_unless_it_is_left_out(tmp_path):
    about_sun = (DATA / "earth.txt").read_text().replace("Solar System Barycenter (0)", "Sun (10)")
    (tmp_path / "earth.txt").write_text(about_sun)
    bodies = io.read_horizons(tmp_path / "earth.txt")
    assert bodies.names == ("Sun", "Earth-Moon Barycenter") and not bodies.q[0].any() and bodies.m[0] == 1.0
    assert io.read_horizons(tmp_path / "earth.txt", centre=False).names == ("Earth-Moon Barycenter",)


WRONG_HORIZONS = [
    ("$$SOE", "", "no line $$SOE"),
    ("Output units", "Output units    : MILES", "output units are MILES"),
    ("Target body name", "", "no line `Target body name:`"),
    (" X =", " X =-1.06746Q153E+06", "the row before has no"),
    ("2451545", "  2451545 A.D.", "where a time was expected"),
]


@pytest.mark.parametrize(("start", "text", "expected"), WRONG_HORIZONS)
def test_a_wrong_table_is_named(altered, start, text, expected):
    with pytest.raises(tp.StoreError) as error:
        io.read_horizons(altered("sun.txt", line_of("sun.txt", start), text))
    assert "sun.txt:" in str(error.value) and expected in str(error.value)


def test_what_tables_must_have_in_common(altered):
    line = line_of("earth.txt", "Reference frame")
    with pytest.raises(tp.StoreError, match="reference frame"):
        io.read_horizons(DATA / "sun.txt", altered("earth.txt", line, "Reference frame : ICRF"))
    with pytest.raises(tp.StoreError, match="no row at JD 2451545.5"):
        io.read_horizons(DATA / "sun.txt", at=2451545.5)
    with pytest.raises(tp.StoreError, match="two files are of Sun"):
        io.read_horizons(DATA / "sun.txt", DATA / "sun.txt")
    other = altered(
        "earth.txt", line_of("earth.txt", "Target"), "Target body name: 1 Ceres (A801 AA)   {source: x}"
    )
    with pytest.raises(tp.StoreError, match="does not contain the mass of 1 Ceres"):
        io.read_horizons(other)
    assert io.read_horizons(other, masses={"1 Ceres (A801 AA)": 4.7e-10}).m.tolist() == [4.7e-10]
    row = line_of("earth.txt", "2451546")
    with pytest.raises(tp.StoreError, match=rf"earth.txt:{row}: 3 columns"):
        io.read_horizons(altered("earth.txt", row, "2451546.0, A.D. 2000, 1.0"))


def test_horizons_is_asked_through_astroquery(monkeypatch):
    """What is asked, and what is made of the answer; the answer itself comes from a stand-in without a network."""
    asked = []

    class Horizons:
        def __init__(self, id, location, epochs):
            asked.append((id, location, epochs))
            self.id = id

        def vectors(self, refplane):
            asked.append(refplane)
            name = {"10": "Sun (10)", "399": "Earth (399)"}[self.id]
            return [{"targetname": name} | dict.fromkeys(("x", "y", "z", "vx", "vy", "vz"), float(self.id))]

    module = types.ModuleType("astroquery.jplhorizons")
    module.Horizons = Horizons
    monkeypatch.setitem(sys.modules, "astroquery", types.ModuleType("astroquery"))
    monkeypatch.setitem(sys.modules, "astroquery.jplhorizons", module)
    bodies = io.query_horizons([10, 399], 2451545.0)
    assert asked == [("10", "@0", 2451545.0), "ecliptic", ("399", "@0", 2451545.0), "ecliptic"]
    assert (
        bodies.names == ("Sun", "Earth")
        and bodies.m.tolist() == [1.0, GM[399] / SUN]
        and bodies.q[1, 0] == 399.0
    )
    monkeypatch.setitem(sys.modules, "astroquery.jplhorizons", None)
    with pytest.raises(tp.StoreError, match="needs the package astroquery"):
        io.query_horizons([10], 2451545.0)


# --- tables ---------------------------------------------------------------------------------------
def test_rows_of_a_table_are_members_of_an_ensemble():
    @tp.hamiltonian
    def pendulum(theta, p, length=1.0):
        return p**2 / (2 * length**2) - length * np.cos(theta)

    states = io.read_csv(DATA / "pendulums.csv")
    assert list(states) == ["theta", "p", "length"] and states["p"].tolist() == [0.0, 0.0, -0.25, 0.0]
    assert tp.compile(pendulum, dt=0.01).evolve(**states, steps=3).final.theta.shape == (4,)


def test_rows_of_a_table_are_particles_where_the_system_has_an_array():
    columns = {"q": ("x", "y", "z"), "p": ("px", "py", "pz"), "m": "mass"}
    states = io.read_csv(DATA / "planets.csv", columns)
    assert states["q"].shape == (3, 3) and states["m"][0] == 1.0
    assert tp.compile(gravity, dt=1.0).evolve(**states, G=GAUSS**2, steps=2).final.q.shape == (3, 3)
    assert io.read_csv(DATA / "planets.csv")["body"].tolist() == ["Sun", "Earth", "Jupiter"]
    with pytest.raises(tp.InputError, match="no column `weight`"):
        io.read_csv(DATA / "planets.csv", {"m": "weight"})


def test_a_parquet_file_may_hold_vectors_as_lists_or_as_components():
    pytest.importorskip("pyarrow")

    @tp.hamiltonian
    def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
        return p @ p / 2 - mu / tp.norm(q)

    states = io.read_parquet(DATA / "orbits.parquet")
    assert states["q"].tolist() == [[1.0, 0.0], [1.5, 0.0], [0.5, 0.25]] and states["p"].shape == (3, 2)
    assert tp.compile(kepler, dt=0.01).evolve(**states, steps=2).final.q.shape == (3, 2)
    with pytest.raises(tp.StoreError, match="could not be read as Parquet"):
        io.read_parquet(DATA / "planets.csv")


WRONG_CSV = [
    ("q,p\n1.0,2.0\n1.0\n", "states.csv:3: 1 columns"),
    ("q,p\n1.0,2.0\n\n# here\n1.0,high\n", "states.csv:5: `high` in the column `p`"),
    ("q,p\n1.0,nan\n", "states.csv:2: `nan` in the column `p`"),
    ("q,p\n1.0,\n", "states.csv:2: `` in the column `p`"),
    ("q,q\n1.0,2.0\n", "states.csv:1: the column `q` is there twice"),
    ("1.0,2.0\n3.0,4.0\n", "states.csv:1: the first line has numbers"),
    ("q,p\n", "states.csv:1: there are no rows"),
    ("q[0],q[2]\n1.0,2.0\n", "Components are counted from 0"),
    ("", "is empty"),
]


@pytest.mark.parametrize(("text", "expected"), WRONG_CSV)
def test_a_wrong_table_of_states_is_named(tmp_path, text, expected):
    path = tmp_path / "states.csv"
    path.write_text(text)
    with pytest.raises(tp.StoreError) as error:
        io.read_csv(path)
    assert expected in str(error.value)


@pytest.mark.parametrize(
    ("package", "extra", "call"),
    [("gemmi", "molecules", lambda: io.read_pdb(DATA / "dipeptide.pdb")),
     ("pyarrow.parquet", "tables", lambda: io.read_parquet(DATA / "orbits.parquet"))],
)  # fmt: skip
def test_a_package_that_is_not_there_is_named_with_its_extra(monkeypatch, package, extra, call):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(tp.StoreError, match=rf'pip install "tinyphysics\[{extra}\]"'):
        call()


READERS = (
    "read_xyz",
    "read_csv",
    "read_gro",
    "read_lammps",
    "read_horizons",
    "read_pdb",
    "read_mmcif",
    "read_parquet",
)


@pytest.mark.parametrize("reader", READERS)
def test_a_path_that_is_no_file_is_told_with_what_to_do(reader, tmp_path):
    read = getattr(io, reader)
    for path, what in (
        (tmp_path / "nope", "No such file"),
        (tmp_path, "is a directory"),
        (None, "is not a path"),
    ):
        with pytest.raises((tp.StoreError, tp.InputError), match=what) as error:
            read(path)
        assert error.value.fix


BROKEN = {
    "no value": ("dipeptide.cif", lambda s: s[:181]),
    "tag twice": ("dipeptide.cif", lambda s: s.replace("_cell.length_c", "_cell.length_b")),
    "long letter": ("dipeptide.cif", lambda s: s.replace(" 7 C CB A ALA A", " 7 C CB long ALA A")),
    "charge": ("dipeptide.pdb", lambda s: s.replace("C  \n", "C99\n", 1)),
    "no ENDMDL": ("dipeptide.pdb", lambda s: s.replace("ENDMDL", "", 1)),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_gemmi_cannot_read_is_a_store_error(name, tmp_path):
    pytest.importorskip("gemmi")
    source, change = BROKEN[name]
    path = tmp_path / source
    path.write_text(change((DATA / source).read_text()))
    read = io.read_pdb if path.suffix == ".pdb" else io.read_mmcif
    with pytest.raises(tp.StoreError) as error:
        read(path)
    assert error.value.fix


def test_letters_of_two_bytes_move_no_column_of_a_pdb_file(tmp_path):
    pytest.importorskip("gemmi")
    text = (DATA / "dipeptide.pdb").read_text()
    (tmp_path / "greek.pdb").write_text(text.replace("  CH3", "  Cα3"), encoding="utf-8")
    plain, greek = (io.read_pdb(p) for p in (DATA / "dipeptide.pdb", tmp_path / "greek.pdb"))
    assert np.array_equal(plain.q, greek.q) and plain.species == greek.species


def test_a_decimal_comma_is_no_word(tmp_path):
    (tmp_path / "a.csv").write_text("q;p\n0,5;1\n-1,5e3;2\n")
    with pytest.raises(tp.StoreError, match="decimal comma"):
        io.read_csv(tmp_path / "a.csv")
