"""Which compositions are known, by whom, and what are their weights?  Starts as data; the weights are solved for.

A scheme is a palindrome and `start` its first half, the middle included, to as many digits as single it out: Newton's
method (synth/coefficients/solve.py) makes all digits of it, or says that this is no solution. Weights are rounded once.

    composition      so many steps of any symmetric method of order 2, each by its weight
    splitting        exp(a1 T) exp(b1 V) exp(a2 T) ... for any two parts
    nystrom          the same, where T is quadratic in p: fewer conditions, so smaller errors
    force gradient   T quadratic; a kick by b V + c h**2 [V, [T, V]]
    near-integrable  H = A + eps B; orders (n1, n2, ...) for an error O(eps h**n1 + eps**2 h**n2 + ...)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache, cached_property

from tinyphysics.synth.coefficients.clocks import palindrome as alternating
from tinyphysics.synth.coefficients.coefficients import DIGITS as IN_DIGITS
from tinyphysics.synth.coefficients.coefficients import rounded
from tinyphysics.synth.coefficients.conditions import (
    NEAR_INTEGRABLE,
    RKN,
    SPLITTING,
    THREE_PARTS,
    Conditions,
    Structure,
    composition,
)
from tinyphysics.synth.coefficients.solve import DIGITS, RESIDUAL, solve
from tinyphysics.util import digest

# keys of planner/methods/bibliography.py
VERLET = "verlet1967"
YOSHIDA = "yoshida1990"
SUZUKI = "suzuki1990"
MCLACHLAN = "mclachlan1995"
MCLACHLAN_SMALL = "mclachlan1995b"
CHIN = "chin1997"
KAHAN_LI = "kahan1997"
OMELYAN = "omelyan2003"
LASKAR_ROBUTEL = "laskar2001"
BLANES_MOAN = "blanes2002"
SOFRONIOU_SPALETTA = "sofroniou2005"
BLANES_ET_AL = "blanes2013"
FOUND = "found by tools/search_methods.py"

STRUCTURES = {
    "splitting": SPLITTING,
    "nystrom": RKN,
    "force gradient": RKN,
    "three parts": THREE_PARTS,
    "near-integrable": NEAR_INTEGRABLE,
}


@dataclass(frozen=True)
class Scheme:
    name: str
    kind: str
    orders: tuple[int, ...]
    moves: str  # of the first half, in order; taken from the beginning again where they are fewer than the weights
    start: tuple[str, ...]
    source: str
    shared: tuple[int, ...] = ()  # which of the starts each move takes, where two moves have one

    @property
    def order(self) -> int:
        return self.orders[0]

    @property
    def structure(self) -> Structure:
        return composition(self.order) if self.kind == "composition" else STRUCTURES[self.kind]

    @cached_property
    def conditions(self) -> Conditions:
        return Conditions(self.structure, self.orders)

    @cached_property
    def layout(self) -> tuple[tuple[str, int], ...]:
        """The whole palindrome: (move, number of its weight)."""
        places = self.shared or tuple(range(len(self.start)))
        moves = [self.moves[k % len(self.moves)] for k in range(len(places))]
        half = list(zip(moves, places))
        middle = 2 if moves[-1] == "W" else 1  # a kick in the middle with its gradient
        return (*half, *reversed(half[:-middle]))

    @property
    def kicks(self) -> int:
        """Evaluations of V, B or of the whole composed method, in one step of many."""
        moves = [move for move, _ in self.layout]
        counted = {"composition": "S", "near-integrable": "B"}.get(self.kind, "V")
        return moves.count(counted) - (moves[0] == moves[-1] == counted != "S")


def half(source: str) -> tuple[str, ...]:
    return tuple(source.split())


def fractions(source: str) -> tuple[str, ...]:
    """Starts that are known as fractions, to more digits than are solved for."""
    return tuple(
        str(IN_DIGITS.divide(Decimal(x.numerator), Decimal(x.denominator)))
        for x in map(Fraction, source.split())
    )


# fmt: off
SCHEMES: tuple[Scheme, ...] = (
    Scheme("leapfrog", "composition", (2,), "S", ("1",), VERLET),
    Scheme("yoshida4", "composition", (4,), "S", ("1.3512", "-1.7024"), YOSHIDA),
    Scheme("suzuki4", "composition", (4,), "S", ("0.4145", "-0.6580"), SUZUKI, shared=(0, 0, 1)),
    Scheme("mclachlan4", "splitting", (4,), "VT", half(
        "0.0892694542264752 0.4 -0.0973360426368955 -0.1 0.5080665884104203 0.4"), MCLACHLAN),
    Scheme("blanes_moan4", "splitting", (4,), "TV", half(
        "0.0792036964311957 0.209515106613362 0.353172906049774 -0.143851773179818 -0.0420650803577195 "
        "0.434336666566456 0.2193769557534996"), BLANES_MOAN),
    Scheme("blanes_moan_nystrom4", "splitting", (4,), "VT", half(
        "0.0829844064174052 0.245298957184271 0.396309801498368 0.604872665711080 -0.0390563049223486 "
        "-0.350171622895351 0.1195241940131508"), BLANES_MOAN),
    Scheme("nystrom4", "splitting", (4,), "VT", half(
        "0.08237575952902495 0.24466314968402619 0.39478542080771984 0.60187406010664482 -0.03885534078707340 "
        "-0.34653720979067100 0.12338832090065722"), FOUND),
    Scheme("yoshida6", "composition", (6,), "S", ("0.784514", "0.235573", "-1.177680", "1.315186"), YOSHIDA),
    Scheme("kahan_li6", "composition", (6,), "S", half(
        "0.39216144400731413927925056 0.33259913678935943859974864 -0.70624617255763935980996482 "
        "0.08221359629355080023149045 0.79854399093482996339895035"), KAHAN_LI),
    Scheme("blanes_moan6", "splitting", (6,), "TV", half(
        "0.0502627644003922 0.148816447901042 0.413514300428344 -0.132385865767784 0.0450798897943977 "
        "0.067307604692185 -0.188054853819569 0.432666402578175 0.541960678450780 -0.016404589403618 "
        "-0.7255255585086898"), BLANES_MOAN),
    Scheme("blanes_moan_nystrom6", "nystrom", (6,), "VT", half(
        "0.0414649985182624 0.123229775946271 0.198128671918067 0.290553797799558 -0.0400061921041533 "
        "-0.127049212625417 0.0752539843015807 -0.246331761062075 -0.0115113874206879 0.357208872795928 "
        "0.2366699247869311 0.204777054291470"), BLANES_MOAN),
    Scheme("blanes_moan_nystrom6_14", "nystrom", (6,), "TV", half(
        "0.0378593198406116 0.091719152624462 0.102635633102435 0.183983170005006 -0.0258678882665587 "
        "-0.056534365832888 0.314241403071447 0.004914688774713 -0.130144459517415 0.143761127168358 "
        "0.106417700369543 0.328567693746804 -0.00879424312851058 -0.196411466486454 "
        "0.20730506905689536"), BLANES_MOAN),
    Scheme("nystrom6", "nystrom", (6,), "TV", half(
        "0.03465176195412821 0.08532937008733476 0.10598051429460046 0.35536657723055674 -0.00390617661318408 "
        "-0.23226204916962780 0.13914359199597249 0.14355724278033347 0.13972750871102746 0.13812329759192651 "
        "0.18782929729090110 -0.02332727762130370 -0.10342649763344564 0.06642567820156003"), FOUND),
    Scheme("kahan_li8", "composition", (8,), "S", half(
        "0.13020248308889008087881763 0.56116298177510838456196441 -0.38947496264484728640807860 "
        "0.15884190655515560089621075 -0.39590389413323757733623154 0.18453964097831570709183254 "
        "0.25837438768632204729397911 0.29501172360931029887096624 -0.60550853383003451169892108"), KAHAN_LI),
    Scheme("nystrom8", "nystrom", (8,), "VT", half(
        "0.02539311698088579 0.07322145053920630 0.19840915701501888 0.32555424731377550 0.00497326320767468 "
        "-0.33645592190895423 -0.06452306364028357 0.23549056341504646 -0.04809290708695920 -0.28539073433519849 "
        "-0.00841203473693206 0.21919585585190092 0.13262018392193887 -0.17964521125556231 0.00461732709513538 "
        "0.28618443073203926 0.21116411646421969 0.13893877028659747 0.06671082038872183 0.18360372810899257 "
        "-0.02285997960942029 -0.32139435749568692"), FOUND),
    Scheme("sofroniou_spaletta10", "composition", (10,), "S", half(
        "0.07879572252168641926390768 0.31309610341510852776481247 0.02791838323507806610952027 "
        "-0.22959284159390709415121340 0.13096206107716486317465686 -0.26973340565451071434460973 "
        "0.07497334315589143566613711 0.11199342399981020488957508 0.36613344954622675119314812 "
        "-0.39910563013603589787862981 0.10308739852747107731580277 0.41143087395589023782070412 "
        "-0.00486636058313526176219566 -0.39203335370863990644808194 0.05194250296244964703718290 "
        "0.05066509075992449633587434 0.04967437063972987905456880 0.04931773575959453791768001"),
        SOFRONIOU_SPALETTA),
    # --- kicks with V and its force gradient
    Scheme("chin4a", "force gradient", (4,), "VTVW", ("0.1667", "0.5", "0.6667", "0.0139"), CHIN),  # also Suzuki's of 1995
    Scheme("chin4b", "force gradient", (4,), "TVWT", ("0.2113", "0.5", "0.0056", "0.5774"), CHIN),
    Scheme("chin4", "force gradient", (4,), "TVTVW", fractions("1/6 3/8 1/3 1/4 1/192"), CHIN),  # one of a family
    Scheme("force_gradient6", "force gradient", (6,), "TVWTVWTVW", half(  # of a family the one with a drift of -1/4
        "0.36184008985416513379914237408497 0.011083749745459415510796304713772 -0.00028685420412354918539970825786473 "
        "-0.25 0.27514181110740149101001036720995 0.0013238869686698126762334886012167 "
        "0.38815991014583486620085762591503 0.42754887829427818695838665615255 0.0046982333455612493270165172764643"),
        OMELYAN),
    # --- H = A + eps B
    Scheme("aba82", "near-integrable", (8, 2), "AB", half("0.069432 0.173927 0.260578 0.326073 0.339981"), LASKAR_ROBUTEL),
    Scheme("aba84", "near-integrable", (8, 4), "AB", half(
        "0.075347 0.190226 0.517917 0.846524 -0.093264 -1.073500"), MCLACHLAN_SMALL),
    Scheme("aba104", "near-integrable", (10, 4), "AB", half(
        "0.04706710064597250613 0.11888191736819701995 0.18475693541708810692 0.24105046055150156574 "
        "0.28270600567983620532 -0.27328666670532380605 -0.01453004174289681838 0.82670857757125044073"), BLANES_ET_AL),
    Scheme("aba864", "near-integrable", (8, 6, 4), "AB", half(
        "0.071133426 0.183083687 0.241153428 0.310782860 0.521411762 -0.026564619 -0.333698616 "
        "0.065396142"), BLANES_ET_AL),
    Scheme("aba1064", "near-integrable", (10, 6, 4), "AB", half(
        "0.038094497 0.095858881 0.145298716 0.204446153 0.207627696 0.217070348 0.435909704 -0.017375382 "
        "-0.653861226"), BLANES_ET_AL),
)
# fmt: on
BY_NAME = {s.name: s for s in SCHEMES}


Read = Callable[[str], bytes | None]
Write = Callable[[str, bytes], None]
_store: list[tuple[Read, Write]] = []  # where solutions are kept between processes, if somebody said so


def keep(read: Read, write: Write) -> None:
    """From now on, what took long to solve is looked for there first; a key says what was solved."""
    _store[:] = [(read, write)]


LONG = 20e-3  # seconds of this thread


@cache
def weights(name: str) -> tuple[Decimal, ...]:
    """The first half of a scheme, to 45 digits.

    >>> print(f"{weights('suzuki4')[0]:.30f}")
    0.414490771794375737142354062861
    """
    s = BY_NAME[name]
    key = digest(f"{s.kind} {s.orders} {s.layout} {s.start} {DIGITS} {RESIDUAL}".encode()) + ".weights"
    for read, _ in _store:
        if stored := read(key):
            return tuple(Decimal(w) for w in stored.decode().split())
    began = time.thread_time()
    found = solve(s.conditions, s.layout, s.start)
    if time.thread_time() - began > LONG:
        for _, write in _store:
            write(key, " ".join(map(str, found)).encode())
    return found


def palindrome(name: str) -> list[tuple[str, Decimal]]:
    """All moves of a scheme with their weights, unrounded."""
    w = weights(name)
    return [(move, w[k]) for move, k in BY_NAME[name].layout]


def steps(name: str) -> tuple[float, ...]:
    """The weights of a composition, rounded once."""
    return tuple(rounded(Fraction(w)) for _, w in palindrome(name))


def sequence(name: str) -> list[tuple[str, float]]:
    """A splitting as (part, weight), rounded once.

    >>> sequence("aba82")[:3]
    [('A', 0.06943184420297371), ('B', 0.17392742256872692), ('A', 0.26057763400459816)]
    """
    return [(move, rounded(Fraction(w))) for move, w in palindrome(name)]


def drifts_and_kicks(name: str) -> list[tuple[str, float]]:
    """A scheme for T(p) + V(q): as it is, or for a composition that many leapfrogs, drift-kick-drift."""
    return alternating("T", "V", steps(name)) if BY_NAME[name].kind == "composition" else sequence(name)


def force_gradient(name: str) -> list[tuple[str, float] | tuple[str, float, float]]:
    """("T", a) drifts; ("V", b, c) kicks by the potential b V + c h**2 [V, [T, V]].

    In operators, [V, [T, V]] is the function -grad V . M**-1 grad V: the force is b F + c h**2 grad(F . M**-1 F).

    >>> [tuple(round(x, 4) if x != part else x for x in (part, *w)) for part, *w in force_gradient("chin4a")][:3]
    [('V', 0.1667, 0.0), ('T', 0.5), ('V', 0.6667, 0.0139)]
    """
    out: list[tuple[str, float] | tuple[str, float, float]] = []
    kick: dict[str, float] = {}
    for move, w in [*sequence(name), ("T", 0.0)]:
        if move == "T":
            if kick:
                out.append(("V", kick.get("V", 0.0), kick.get("W", 0.0)))
            out.append(("T", w))
            kick = {}
        else:
            kick[move] = w
    return out[:-1]


def three_parts(name: str, parts: str = "ABC") -> list[tuple[str, float]]:
    """A composition or a splitting of two parts, for any number of parts: of the same order.

    exp(a1 T) exp(b1 V) exp(a2 T) ... is X(x1) Y(x2) X(x3) ... with X(h) = exp(h T) exp(h V), Y(h) = exp(h V) exp(h T)
    and x1 = a1, x1 + x2 = b1, x2 + x3 = a2, ...; the order of such a product does not depend on what X is made of
    (McLachlan 1995), so X(h) may be exp(h A) exp(h B) exp(h C).

    >>> three_parts("leapfrog")
    [('A', 0.5), ('B', 0.5), ('C', 1.0), ('B', 0.5), ('A', 0.5)]
    """
    scheme = BY_NAME[name]
    if scheme.kind == "composition":
        single = [w / 2 for _, w in palindrome(name) for _ in range(2)]
    elif scheme.kind == "splitting":
        single = [Decimal(0)]
        for _, w in palindrome(name)[:-1]:
            single.append(w - single[-1])
        single = single[1:]
    else:
        raise ValueError(f"`{name}` is a {scheme.kind} scheme: it is for two parts of its own kind")
    out: list[tuple[str, Decimal]] = []
    for k, w in enumerate(single):
        for part in parts if k % 2 == 0 else reversed(parts):
            if out and out[-1][0] == part:
                out[-1] = (part, out[-1][1] + w)
            else:
                out.append((part, w))
    return [(part, rounded(Fraction(w))) for part, w in out]
