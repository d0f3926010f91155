"""How are tables of JPL Horizons read?  Vectors of one body in each file, between $$SOE and $$EOE; in au, days and
solar masses.

A table comes from the web page, from e-mail or from `astroquery`: ephemeris type VECTORS, with or without CSV format,
in km or au. It has no mass. Masses of the Sun, the planets and the Moon are those of DE440; of other bodies they are
given.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tinyphysics.errors import InputError, StoreError
from tinyphysics.physics.io.atoms import arguments
from tinyphysics.physics.io.reading import lines_of, number
from tinyphysics.physics.io.xyz import Place

AU = 149597870.7  # km: IAU 2012
DAY = 86400.0  # s
SUN = 132712440041.279419  # G M of the Sun in km**3/s**2: DE440
G = SUN / AU**3 * DAY**2  # in au**3/(solar mass day**2)
# G M in km**3/s**2 by the number of the body: Park, Folkner, Williams & Boggs 2021, Astron. J. 161, 105 (DE440), table 2.
# A planet with its moons has one digit, a planet alone three (those of the giants from the kernel gm_de440).
# fmt: off
GM = {
    10: SUN,
    1: 22031.868551, 199: 22031.868551, 2: 324858.592000, 299: 324858.592000,
    3: 403503.235625, 399: 398600.435507, 301: 4902.800118,
    4: 42828.375816, 499: 42828.373620704, 5: 126712764.100000, 599: 126686531.900, 6: 37940584.841800, 699: 37931206.16,
    7: 5794556.400000, 799: 5793951.257, 8: 6836527.100580, 899: 6835103.145, 9: 975.500000, 999: 869.326,
}
UNITS = {"KM-S": (1 / AU, DAY / AU), "KM-D": (1 / AU, 1 / AU), "AU-D": (1.0, 1.0)}  # to au and au/day
# fmt: on
BODY = re.compile(r"^(Target|Center) body name:\s*(.*?)\s*(?:\((-?\d+)\))?\s*(?:\{.*)?$")
EPOCH = re.compile(r"^(\d+\.\d+)\s*=\s*")
PAIR = re.compile(r"(VX|VY|VZ|X|Y|Z)\s*=\s*([-+0-9.EeDd]+)")
AXES = ("X", "Y", "Z", "VX", "VY", "VZ")
HOW = "Ask Horizons for Ephemeris Type VECTORS, with Vector table 2 or 3."


@dataclass(frozen=True, eq=False)
class Bodies:
    """Bodies at one time, in au, days and solar masses: `sim.evolve(**bodies.start(gravity), ...)`."""

    q: Any  # (n, 3), au, about the centre of the tables
    v: Any  # (n, 3), au/day
    m: Any  # (n,), masses of the Sun
    names: tuple[str, ...]
    epoch: float  # Julian day, TDB
    centre: str = ""
    frame: str = ""
    units: str = "au, day, solar mass"
    info: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.q)

    def __repr__(self) -> str:
        return f"<Bodies at JD {self.epoch:.6f} TDB: {', '.join(self.names)}; {self.units}>"

    def start(self, system: Any = None) -> dict[str, Any]:
        """Returns q, p, m and G for `evolve`, the centre of mass at rest in the origin; only those that `system` has."""
        whole = self.m.sum()
        q, v = (x - (self.m[:, None] * x).sum(0) / whole for x in (self.q, self.v))
        have = {"q": q, "p": self.m[:, None] * v, "v": v, "m": self.m, "mass": self.m, "G": G}
        wanted = ("q", "p", "m", "G") if system is None else arguments(system)
        return {name: value for name, value in have.items() if name in wanted}


@dataclass(frozen=True)
class Table:
    """One file: a body, and its states at some times, in au and au/day."""

    path: str
    name: str
    number: int | None
    centre: str
    centre_number: int | None
    frame: str
    times: Any  # Julian days
    states: Any  # (times, 6)


def read_horizons(
    *paths: Any, at: float | None = None, masses: Mapping[str, float] | None = None, centre: bool = True
) -> Bodies:
    """Reads vector tables of JPL Horizons, one file for each body, and returns the bodies at one time.

    `paths` are the files. `at` is the Julian day (TDB) of one of their rows, the first if it is not given. `masses`
    are in solar masses, by name, for bodies other than the Sun, the planets and the Moon. If the tables are
    centred on a body without a file of its own, such as the Sun, it is placed at the origin, at rest; centre=False leaves
    it out.
    """
    if not paths:
        raise InputError("read_horizons() needs a file", fix='read_horizons("sun.txt", "earth.txt").')
    tables = [table(p) for p in paths]
    first = tables[0]
    for t in tables[1:]:
        told = ("centre", first.centre, t.centre), ("reference frame", first.frame, t.frame)
        for what, one, other in told:
            if one != other:
                raise StoreError(
                    f"`{t.path}` has the {what} {other or '(not named)'}, and `{first.path}` {one}",
                    fix=f"Ask Horizons for the same {what} for all bodies.",
                )
    epoch = float(first.times[0]) if at is None else float(at)
    rows = np.stack([row_at(t, epoch) for t in tables])
    names = [t.name for t in tables]
    if len(set(names)) < len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise StoreError(f"two files are of {twice}", fix="Pass one file for each body.")
    m = [mass_of(t.name, t.number, masses or {}, t.path) for t in tables]
    has_centre = any(t.number == first.centre_number for t in tables) or first.centre_number in (None, 0)
    if centre and not has_centre and (first.centre_number in GM or first.centre in (masses or {})):
        names.insert(0, first.centre)
        m.insert(0, mass_of(first.centre, first.centre_number, masses or {}, first.path))
        rows = np.concatenate([np.zeros((1, 6)), rows])
    states, info = (rows[:, :3], rows[:, 3:]), {"files": len(tables)}
    return Bodies(*states, np.array(m), tuple(names), epoch, first.centre, first.frame, info=info)


def mass_of(name: str, body: int | None, masses: Mapping[str, float], path: str) -> float:
    """In masses of the Sun: given by name, or of DE440 by the number of the body."""
    if name in masses:
        return float(masses[name])
    if body in GM:
        return GM[body] / SUN
    raise StoreError(
        f"`{path}` does not contain the mass of {name}",
        fix=f'Pass it in solar masses: read_horizons(..., masses={{"{name}": 4.7e-10}}).',
    )


def row_at(t: Table, epoch: float) -> Any:
    """The state at a Julian day that the table has."""
    k = int(np.abs(t.times - epoch).argmin())
    if abs(t.times[k] - epoch) > 1e-8:  # a millisecond
        raise StoreError(
            f"`{t.path}` has no row at JD {epoch:.6f}",
            fix=f"It goes from {t.times[0]:.6f} to {t.times[-1]:.6f}, {len(t.times)} rows; the nearest is {t.times[k]:.6f}.",
        )
    return t.states[k]


def table(path: Any) -> Table:
    """One file."""
    lines = lines_of(path, "a table of JPL Horizons")
    marks = [k for k, line in enumerate(lines) if line.strip() == "$$SOE"]
    ends = [k for k, line in enumerate(lines) if line.strip() == "$$EOE"]
    if not marks or not ends:
        missing = "$$SOE" if not marks else "$$EOE"
        raise Place(str(path), len(lines)).wrong(f"there is no line {missing}", HOW)
    bodies, units, frame = header(str(path), lines[: marks[0]])
    name, body = bodies.get("Target", ("", None))
    centre, centre_body = bodies.get("Center", ("", None))
    to_length, to_speed = UNITS[units]
    rows = list(range(marks[0] + 1, ends[0]))
    csv = any("," in lines[k] for k in rows[:1])
    times, states = (by_commas if csv else by_names)(str(path), lines, rows)
    if not times:
        raise Place(str(path), marks[0] + 1).wrong("no rows between $$SOE and $$EOE", HOW)
    scaled = np.array(states) * ([to_length] * 3 + [to_speed] * 3)
    return Table(str(path), name or str(path), body, centre, centre_body, frame, np.array(times), scaled)


def header(path: str, lines: Sequence[str]) -> tuple[dict[str, tuple[str, int | None]], str, str]:
    """Target and centre with their numbers, the units, the reference frame."""
    bodies: dict[str, tuple[str, int | None]] = {}
    units, frame, at = "", "", 0
    for k, line in enumerate(lines):
        if found := BODY.match(line.strip()):
            bodies[found[1]] = (found[2].strip(), int(found[3]) if found[3] else None)
        if line.strip().startswith("Output units"):
            units, at = line.partition(":")[2].split(",")[0].strip(), k + 1
        if line.strip().startswith("Reference frame"):
            frame = line.partition(":")[2].strip()
    if "Target" not in bodies:
        raise Place(path, 1).wrong("there is no line `Target body name:` before $$SOE", HOW)
    if units not in UNITS:
        raise Place(path, at or 1).wrong(
            f"the output units are {units or 'not said'}", f"Expected one of {', '.join(UNITS)}. {HOW}"
        )
    return bodies, units, frame


def by_commas(path: str, lines: Sequence[str], rows: Sequence[int]) -> tuple[list[float], list[list[float]]]:
    """Rows of the CSV format: JDTDB, calendar date, X, Y, Z, VX, VY, VZ, and the other terms."""
    times, states = [], []
    for k in rows:
        place, cells = Place(path, k + 1), [c.strip() for c in lines[k].split(",")]
        if len(cells) < 8:
            raise place.wrong(
                f"{len(cells)} columns", f"Expected JDTDB, a date, X, Y, Z, VX, VY and VZ. {HOW}"
            )
        times.append(number(place, cells[0], "a Julian day", "2451545.0"))
        states.append([number(place, c, f"the component {axis}") for c, axis in zip(cells[2:8], AXES)])
    return times, states


def by_names(path: str, lines: Sequence[str], rows: Sequence[int]) -> tuple[list[float], list[list[float]]]:
    """Blocks of lines: a time, then X = ... Y = ... Z = ..., then VX= ... VY= ... VZ= ..."""
    times: list[float] = []
    states: list[dict[str, float]] = []
    for k in rows:
        place, line = Place(path, k + 1), lines[k].strip()
        if found := EPOCH.match(line):
            check_complete(states, place, "the row before")
            times.append(number(place, found[1], "a Julian day", "2451545.0"))
            states.append({})
        elif line and not states:
            raise place.wrong(
                f"`{line[:40]}` where a time was expected", "Expected `2451545.000000000 = A.D. ... TDB`."
            )
        elif line:
            states[-1] |= {
                axis: number(place, word, f"the component {axis}") for axis, word in PAIR.findall(line)
            }
    if states:
        check_complete(states, Place(path, rows[-1] + 1), "the last row")
    return times, [[s[axis] for axis in AXES] for s in states]


def check_complete(states: Sequence[Mapping[str, float]], place: Place, which: str) -> None:
    missing = [axis for axis in AXES if states and axis not in states[-1]]
    if missing:
        raise place.wrong(f"{which} has no {missing[0]}", HOW)


def query_horizons(
    bodies: Sequence[Any], epoch: float, *, location: str = "@0", masses: Mapping[str, float] | None = None
) -> Bodies:
    """Queries JPL Horizons over the network, with the package astroquery, for bodies at a Julian day (TDB).

    `bodies` are Horizons names or numbers, such as 399 or "Ceres"; `epoch` is the Julian day; `location` is the
    centre, "@0" the barycentre of the solar system and "@10" the Sun; `masses` are those of `read_horizons`. The
    frame is the ecliptic of J2000.
    """
    try:
        from astroquery.jplhorizons import Horizons
    except ImportError:
        raise StoreError(
            "query_horizons() needs the package astroquery",
            fix='pip install "tinyphysics[planets]", or read_horizons(file).',
        ) from None
    if not bodies or not math.isfinite(float(epoch)):
        raise InputError(
            f"query_horizons({list(bodies)!r}, {epoch!r})", fix="query_horizons([10, 399], 2451545.0)."
        )
    names, rows, m = [], [], []
    for body in bodies:
        row = Horizons(id=str(body), location=location, epochs=float(epoch)).vectors(refplane="ecliptic")[0]
        found = re.match(r"(.*?)\s*(?:\((-?\d+)\))?$", str(row["targetname"]).strip())
        name, number_ = (found[1], int(found[2]) if found[2] else None) if found else (str(body), None)
        names.append(name)
        m.append(mass_of(name, number_, masses or {}, f"Horizons on {body}"))
        rows.append([float(row[axis]) for axis in ("x", "y", "z", "vx", "vy", "vz")])
    state = np.array(rows)
    return Bodies(
        state[:, :3], state[:, 3:], np.array(m), tuple(names), float(epoch), location, "Ecliptic of J2000.0"
    )
