"""What does a unit of measurement mean?  Powers of seven base units, and a factor: "kg m/s", "kJ/mol", "m3/s2".

Only texts are read here; quantities of other libraries are converted in runtime/api/quantities.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tinyphysics.errors import UnitError
from tinyphysics.util import Site, did_you_mean

BASE = ("m", "kg", "s", "A", "K", "mol", "cd")
LONG = dict(zip(BASE, ("meter", "kilogram", "second", "ampere", "kelvin", "mole", "candela")))
SAME = 1e-8  # relative: constants such as the dalton change in their ninth digit
# fmt: off
PREFIXES = {
    "y": -24, "z": -21, "a": -18, "f": -15, "p": -12, "n": -9, "u": -6, "µ": -6, "μ": -6, "m": -3, "c": -2, "d": -1,
    "h": 2, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}
NAMES_OF_PREFIXES = {
    -24: "yocto", -21: "zepto", -18: "atto", -15: "femto", -12: "pico", -9: "nano", -6: "micro", -3: "milli", -2: "centi",
    -1: "deci", 2: "hecto", 3: "kilo", 6: "mega", 9: "giga", 12: "tera", 15: "peta", 18: "exa",
}
# symbols, the first with prefixes; the name that pint has; the factor; what it is made of
UNITS: tuple[tuple[str, str, float, str], ...] = (
    ("m", "meter metre", 1.0, "m"), ("g", "gram", 1e-3, "kg"), ("s sec", "second", 1.0, "s"), ("A", "ampere", 1.0, "A"),
    ("K", "kelvin", 1.0, "K"), ("mol", "mole", 1.0, "mol"), ("cd", "candela", 1.0, "cd"),
    ("rad", "radian", 1.0, ""), ("deg °", "degree", math.pi / 180, ""), ("turn rev", "turn", 2 * math.pi, ""),
    ("N", "newton", 1.0, "kg m s-2"), ("J", "joule", 1.0, "kg m2 s-2"), ("W", "watt", 1.0, "kg m2 s-3"),
    ("Pa", "pascal", 1.0, "kg m-1 s-2"), ("Hz", "hertz", 1.0, "s-1"), ("C", "coulomb", 1.0, "A s"),
    ("V", "volt", 1.0, "kg m2 s-3 A-1"), ("T", "tesla", 1.0, "kg s-2 A-1"), ("Wb", "weber", 1.0, "kg m2 s-2 A-1"),
    ("F", "farad", 1.0, "kg-1 m-2 s4 A2"), ("H", "henry", 1.0, "kg m2 s-2 A-2"), ("ohm Ω", "ohm", 1.0, "kg m2 s-3 A-2"),
    ("S", "siemens", 1.0, "kg-1 m-2 s3 A2"), ("L l", "liter litre", 1e-3, "m3"),
    ("min", "minute", 60.0, "s"), ("h hr", "hour", 3600.0, "s"), ("d", "day", 86400.0, "s"),
    ("yr", "year", 31557600.0, "s"), ("eV", "electron_volt", 1.602176634e-19, "kg m2 s-2"),
    ("cal", "calorie", 4.184, "kg m2 s-2"), ("erg", "erg", 1e-7, "kg m2 s-2"), ("dyn", "dyne", 1e-5, "kg m s-2"),
    ("Å", "angstrom", 1e-10, "m"), ("bohr", "bohr", 5.29177210544e-11, "m"),
    ("Eh", "hartree", 4.3597447222060e-18, "kg m2 s-2"),
    ("Da u amu", "dalton", 1.66053906892e-27, "kg"), ("AU au", "astronomical_unit", 149597870700.0, "m"),
    ("ly", "light_year", 9460730472580800.0, "m"), ("pc", "parsec", 3.0856775814913674e16, "m"),
    ("bar", "bar", 1e5, "kg m-1 s-2"), ("atm", "standard_atmosphere", 101325.0, "kg m-1 s-2"),
    ("e", "elementary_charge", 1.602176634e-19, "A s"),
)
# fmt: on
PLAIN = ("", "1", "dimensionless", "number")
TOKEN = re.compile(
    r"\s*(?:(?P<power>\*\*|\^)|(?P<mark>[*·/()])|(?P<number>-?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)"
    r"|(?P<name>[A-Za-zµμΩ°Å_]+))"
)
LONGEST = 200  # characters of a unit
RAISED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


@dataclass(frozen=True)
class Unit:
    """A unit: its powers of BASE, a factor, and a text that pint reads."""

    powers: tuple[Fraction, ...] = (Fraction(0),) * len(BASE)
    factor: float = 1.0
    text: str = ""

    def __mul__(self, other: Unit) -> Unit:
        powers = tuple(a + b for a, b in zip(self.powers, other.powers))
        return Unit(powers, self.factor * other.factor, join(self.text, other.text))

    def __pow__(self, n: Fraction) -> Unit:
        text = "" if not self.text else f"({self.text})**({n})" if n != 1 else self.text
        return Unit(tuple(a * n for a in self.powers), self.factor ** float(n), text)

    @property
    def is_number(self) -> bool:
        return not any(self.powers)

    def __str__(self) -> str:
        return written(self.powers, self.factor)


def in_unit(value: Any, wanted: Unit, name: str) -> Any:
    """The number that a quantity of pint's is in a unit, or a UnitError; anything else as it is."""
    if isinstance(value, (list, tuple)) and not set(map(type, value)) <= {float, int}:
        return [in_unit(x, wanted, name) for x in value]
    if type(value).__module__ == "numpy" or not all(
        hasattr(value, a) for a in ("magnitude", "units", "m_as")
    ):
        return value
    text, factor = (
        (wanted.text, 1.0) if wanted.text else (product(wanted.powers, tuple(LONG.values())), wanted.factor)
    )
    try:
        found = value.m_as(text or "dimensionless")
    except Exception as error:
        raise UnitError(
            f"`{name}` is given in `{value.units}`, which cannot be converted to {wanted}",
            fix=f"Pass {name} in {wanted}, or in a unit of the same dimension.",
        ) from error
    return found if factor == 1.0 else found / factor


def join(a: str, b: str) -> str:
    return f"{a}*{b}" if a and b else a or b


def power(name: str, n: Fraction) -> str:
    return name if n == 1 else f"{name}**{n}" if n.denominator == 1 else f"{name}**({n})"


def product(powers: tuple[Fraction, ...], names: tuple[str, ...] = BASE) -> str:
    """As one writes it: kg*m**2/s**2."""
    order = sorted(
        range(len(names)), key=lambda k: ("kg", "m").index(BASE[k]) if BASE[k] in ("kg", "m") else 2
    )
    above = [power(names[k], powers[k]) for k in order if powers[k] > 0]
    below = [power(names[k], -powers[k]) for k in order if powers[k] < 0]
    return "/".join(["*".join(above) or "1", *below]) if above or below else ""


def written(powers: tuple[Fraction, ...], factor: float) -> str:
    """A unit in base units, with its factor; a number is called that."""
    for symbols, _, size, made in UNITS:
        known = parsed(made)
        if (
            any(powers)
            and known.powers == powers
            and abs(size * known.factor / factor - 1) < SAME
            and len(made) > 3
        ):
            return symbols.split()[0]
    base = product(powers)
    if abs(factor - 1) < SAME:
        return base or "a pure number"
    ten = round(math.log10(factor))
    if sum(map(bool, powers)) == 1 and 1 in powers and abs(10.0**ten / factor - 1) < SAME and base != "kg":
        symbol = next((s for s, e in PREFIXES.items() if e == ten and s not in ("c", "d", "h")), None)
        if symbol is not None:
            return f"{symbol}{base}"
    return f"{factor:.9g} {base}".strip()


def table() -> dict[str, tuple[float, str, str, bool]]:
    out: dict[str, tuple[float, str, str, bool]] = {}
    for symbols, names, factor, made in UNITS:
        name = names.split()[0]
        for k, symbol in enumerate((*symbols.split(), *names.split())):
            out[symbol] = (factor, made, name, k == 0)
        for long in names.split():
            out[f"{long}s"] = (factor, made, name, False)
    return out


_KNOWN: dict[str, tuple[float, str, str, bool]] = {}
_PARSED: dict[str, Unit] = {}


def known() -> dict[str, tuple[float, str, str, bool]]:
    if not _KNOWN:
        _KNOWN.update(table())
    return _KNOWN


def made_of(text: str) -> tuple[Fraction, ...]:
    """Powers of base units, as the table has them: "kg m2 s-2"."""
    out = dict.fromkeys(BASE, Fraction(0))
    for part in text.split():
        found = re.fullmatch(r"([A-Za-z]+)(-?\d+)?", part)
        assert found is not None
        out[found[1]] += int(found[2] or 1)
    return tuple(out.values())


def single(name: str) -> Unit | None:
    units = known()
    if name in units:
        factor, made, long, _ = units[name]
        return Unit(made_of(made), factor, long)
    for at in range(1, min(len(name), 7)):
        prefix, rest = name[:at], name[at:]
        ten = PREFIXES.get(prefix)
        if ten is None:
            ten = next((e for e, long in NAMES_OF_PREFIXES.items() if long == prefix), None)
        if ten is not None and rest in units and (len(prefix) > 2 or units[rest][3]):
            factor, made, long, _ = units[rest]
            return Unit(made_of(made), factor * 10.0**ten, f"{NAMES_OF_PREFIXES[ten]}{long}")
    return None


def parsed(text: str) -> Unit:
    """A unit that the tables of this file are known to have."""
    return Unit(made_of(text))


def unit(text: str, what: str = "", site: Site | None = None) -> Unit:
    """The unit that a text means, or a UnitError with the nearest names.

    >>> str(unit("kg m/s2")), str(unit("km/h")), unit("kJ/mol").factor
    ('N', '0.277777778 m/s', 1000.0)
    """
    if text not in _PARSED:
        _PARSED[text] = read(text, what, site)
    return _PARSED[text]


def read(text: str, what: str, site: Site | None) -> Unit:
    def wrong(why: str, fix: str = "") -> UnitError:
        of = f" of `{what}`" if what else ""
        return UnitError(
            f"the unit {text!r}{of} cannot be read: {why}",
            site=site,
            fix=fix or 'Write "m", "kg m/s", "kJ/mol", "m**3/s**2".',
        )

    plain = text.translate(RAISED).strip()
    if plain in PLAIN:
        return Unit()
    if len(plain) > LONGEST:
        raise wrong("it is too long")
    tokens = split(plain, wrong)
    scaled = any(kind == "number" and float(x) != 1 for kind, x in tokens)
    found = product_of(tokens, wrong)
    if tokens:
        raise wrong("a bracket is closed that was not opened")
    # pint takes no numbers in a unit: then it is told the base units, and the factor is ours
    return Unit(found.powers, found.factor) if scaled else found


Token = tuple[str, str]  # its kind, and its text
Wrong = Callable[..., UnitError]


def split(plain: str, wrong: Wrong) -> list[Token]:
    """The tokens of a text, the last one first; digits behind a letter are a power."""
    out: list[Token] = []
    at = 0
    while at < len(plain):
        m = TOKEN.match(plain, at)
        if m is None or m.end() == at:
            raise wrong(f"`{plain[at:].strip()[:12]}` is no part of a unit")
        for kind, found in m.groupdict().items():
            if found is None:
                continue
            behind = plain[m.start(kind) - 1 : m.start(kind)]
            after_power = bool(out) and out[-1][0] == "power"
            if kind == "number" and behind.isalpha() and not after_power:
                out.append(("power", ""))
                kind = "exponent"
            elif kind == "number" and (after_power or [k for k, _ in out[-2:]] == ["power", "("]):
                kind = "exponent"
            elif kind == "number" and len(out) > 2 and out[-1] == ("mark", "/") and out[-2][0] == "exponent":
                kind = "exponent" if out[-3] == ("(", "(") else kind
            out.append(("(", "(") if found == "(" else (kind, found))
        at = m.end()
    return out[::-1]


def product_of(tokens: list[Token], wrong: Wrong) -> Unit:
    """Factors up to the end, or up to the bracket that closes them; a quotient is of the one factor behind it."""
    out, sign = factor_of(tokens, wrong), 1
    while tokens and tokens[-1] != ("mark", ")"):
        if tokens[-1][0] == "mark":
            sign = -1 if tokens.pop()[1] == "/" else 1
        else:
            sign = 1  # side by side
        out = out * factor_of(tokens, wrong) ** Fraction(sign)
    return out


def factor_of(tokens: list[Token], wrong: Wrong) -> Unit:
    """A name, a number or a bracket, with its power."""
    if not tokens:
        raise wrong("it is not complete")
    kind, text = tokens.pop()
    if kind == "name":
        found = single(text)
        if found is None:
            near = did_you_mean(text, [k for k in known() if len(k) > 1])
            raise wrong(
                f"there is no unit `{text}`", f'{near}Write SI units, such as "m", "kg m/s", "eV", "AU".'
            )
    elif kind == "number":
        if not 0.0 < float(text) < math.inf:
            raise wrong(f"{text} is no factor")
        found = Unit(factor=float(text))
    elif kind == "(":
        found = product_of(tokens, wrong)
        if not tokens:
            raise wrong("it is not complete")
        tokens.pop()
    elif kind == "power":
        raise wrong("a power of nothing")
    else:
        raise wrong("it is not complete" if text != ")" else "a bracket is closed that was not opened")
    if tokens and tokens[-1][0] == "power":
        tokens.pop()
        found = found ** exponent_of(tokens, wrong)
    return found


def exponent_of(tokens: list[Token], wrong: Wrong) -> Fraction:
    """2, -1, 0.5, (1/3)."""
    closed = tokens[-1:] == [("(", "(")]
    if closed:
        tokens.pop()
    if not tokens:
        raise wrong("it is not complete")
    kind, text = tokens.pop()
    if kind != "exponent":
        raise wrong("a power must be a whole number or a fraction")
    out = Fraction(text)
    if closed and tokens[-1:] == [("mark", "/")]:
        tokens.pop()
        kind, text = tokens.pop() if tokens else ("", "")
        if kind != "exponent" or not Fraction(text):
            raise wrong("a power must be a whole number or a fraction")
        out /= Fraction(text)
    if closed and (not tokens or tokens.pop() != ("mark", ")")):
        raise wrong("a power must be a whole number or a fraction")
    return out.limit_denominator(64)
