"""The operations of the IR: fewer than a hundred, in groups that share one meaning each."""

from __future__ import annotations

from enum import Enum


class Ops(Enum):
    __hash__ = object.__hash__  # members are singletons; Enum's own hash is a Python call

    # leaves
    CONST = "const"  # arg: the number; every element of the shape has it
    VAR = "var"  # arg: its name; a state, a parameter, the time
    RANGE = "range"  # 0, 1, ... along the one axis of its shape
    # one argument
    NEG = "neg"
    ABS = "abs"
    SIGN = "sign"
    FLOOR = "floor"
    RINT = "rint"  # to the nearest integer, ties to even
    SQRT = "sqrt"
    RSQRT = "rsqrt"
    CBRT = "cbrt"
    SIN = "sin"
    COS = "cos"
    TAN = "tan"
    ASIN = "asin"
    ACOS = "acos"
    ATAN = "atan"
    SINH = "sinh"
    COSH = "cosh"
    TANH = "tanh"
    EXP = "exp"
    EXPM1 = "expm1"
    LOG = "log"
    LOG1P = "log1p"
    ERF = "erf"
    NOT = "not"
    CAST = "cast"  # value conversion to the node's dtype
    BITCAST = "bitcast"  # same bits, another dtype of the same width
    # two arguments
    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    POW = "pow"
    ATAN2 = "atan2"
    HYPOT = "hypot"
    ANGLE = "turn"  # of an angle in two words, less whole turns if it is large, the first word
    ANGLE_LOW = "turn_low"  # and the second
    MIN = "min"
    MAX = "max"
    LT = "lt"
    LE = "le"
    EQ = "eq"
    NE = "ne"
    AND = "and"
    OR = "or"
    XOR = "xor"
    SHL = "shl"
    SHR = "shr"  # logical: zeros come in from the left
    MULHI = "mulhi"  # high half of the product of two u32
    # of whole numbers, as NumPy's: rounded down, the sign of the divisor; of 0 they are 0
    FLOORDIV = "floordiv"
    MOD = "mod"
    TDIV = "tdiv"  # towards zero, as machines divide: the divisor is neither 0 nor -1
    SAR = "sar"  # as shr, but copies of the sign come in from the left
    # three arguments
    FMA = "fma"  # a*b + c, rounded once
    WHERE = "where"
    WHERE_RARELY = "seldom"  # as where; the first choice is needed so seldom that a kernel begins without it
    IMAGE = "image"  # (a - s) - b, where s is a whole number of periods: it moves as the box does
    # of the flow of a*p*p/2 + b*q*q/2 for a time h; sources: a, b, h; what they are is said in ir/harmonic.py
    HARMONIC_SIGN = "arc_sign"  # 1, or -1 if half turns are taken out of it
    HARMONIC_DRIFT = "arc_drift"  # what is left is a drift for this time, a kick, and the same drift
    HARMONIC_KICK = "arc_kick"  # and this is the time of the kick
    HARMONIC_LAG = "arc_lag"  # q less this times the slope b*q is the mean of q over the time, for those that begin at rest
    # about 1/sqrt x, as the machine has it in one instruction; arg: which (target.py), and whether it must
    # not be finite where it is not for x. In kernels of math="fast" alone
    RSQRT_ESTIMATE = "seed"
    # a user's own operation; arg: its registered name
    CUSTOM = "custom"
    # G1, G2, G3 or the time on a Kepler orbit by the slow path of rules/formulas/kepler.py; arg: which of them, sources:
    # what is known of the orbit, and the time
    KEPLER_SLOW = "far"
    # a random number; arg: (kind, stream, count), sources: two words of the seed, the step, the member, the index among
    # the count of them that each member draws
    RANDOM = "random"
    # movement: the same numbers in another arrangement
    RESHAPE = "reshape"
    EXPAND = "expand"  # broadcasting, right-aligned as in NumPy
    PERMUTE = "permute"  # arg: axes
    SLICE = "slice"  # arg: (start, stop, step > 0) per axis
    PAD = "pad"  # arg: (before, after, between) zeros per axis
    FLIP = "flip"  # arg: axes
    ROLL = "roll"  # arg: ((shift, axis), ...)
    CONCAT = "concat"  # arg: axis
    STACK = "stack"  # scalars, row-major, into the node's shape
    ELEMENT = "element"  # arg: row-major index; one number out of an array
    TRIU = "triu"  # arg: (a, b); zero where the index along axis a is not below that along b; (a, b, k): by a list
    # chosen by indices: sources are the array, then an i64 array for each of its leading axes, all of one shape
    GATHER = "gather"  # the items there, in the shape of the indices; NaN where an index is outside
    # the items added there one after the other, to zeros; an index outside makes the first NaN
    SCATTER = "scatter"
    # neighbours of points; arg: (what, number of the list[, way through space])
    #   sources: points, cutoff, skin, and the cell if there is one
    #   order, inverse: an order of the points in which neighbours are close together, as indices, and its inverse
    #   images: how many periods each point is from the cell at the origin;  distance2: see front/neighbours.py
    NEIGHBOURS = "near"
    # through a tree, for each of some points in space the gradient of the sum over the others of m/sqrt(r**2 + e**2),
    # to a relative error; arg: (error,), sources: points, masses, e**2
    TREE = "tree"
    # bodies in space, a row each, as rules/formulas/jacobi.py says: in other coordinates, arg (way, order of the bodies),
    # sources rows, masses; a time later on their Kepler orbits, arg (0,) positions or (1,) velocities, sources positions,
    # velocities, G times masses, time; how that changes along a direction, which is three sources more; accelerations
    # without the pull of the centres, sources those, positions, G times masses
    JACOBI = "jacobi"
    KEPLER = "kepler"
    KEPLER_ALONG = "kepler_along"
    PERTURBATION = "pull"
    # block tridiagonal equations along the third axis, solved place by place (rules/calculus/lines.py); arg: which entries of
    # the matrices below and above the diagonal are not zero, a bit each; sources: those three matrices, right-hand sides
    LINE = "line"
    # the root of equations, found round by round; arg: (name of the unknown, rounds), sources: where it starts, one over
    # the size of each number, residuals, and perhaps a matrix that makes corrections of them. The last two hold the unknown
    SOLVE = "solve"
    # one number of that, as rules/calculus/solve.py closes it; arg: (which, how many, rounds, the equations as text),
    # sources: starts, sizes, what the equations know
    SOLVED = "solved"
    # the Fourier transform of complex numbers along an axis; arg: (part, sign, axis), part 0 of the result is the real
    # one; sources: real and imaginary parts. What it is, operation by operation, is said in ir/fourier.py
    FOURIER = "fourier"
    # the u with -div(k grad u) + s*u = f on a grid; arg: (tolerance, numbers), sources: f, s, 1/h**2 along each axis, and
    # k at the nodes if it is not one number. What they say is in rules/calculus/elliptic.py
    ELLIPTIC = "elliptic"
    # particles on a periodic mesh (ir/mesh.py); arg: (what, order of the splines, derivatives along each axis, mesh)
    #   spread: of places in units of the mesh and charges, what the nodes have;  interpolate: of places and nodes
    #   convolve: of nodes, and numbers for each wave: the sum over waves of number*wave*transform, not divided
    #   half_square: half the sum of nodes times that;  spectrum: of two arrays of nodes, Re(conj X Y) of each wave
    MESH = "mesh"
    # one number of a buffer; arg: (buffer, plane), sources: an index for each axis. In loop nests only
    LOAD = "load"
    # reduction; arg: (kind, axes) with kind sum, max or min, or ("pairs", (axis,), (a, b)): over i < j alone;
    # with (a, b, k) the items are neighbours in the order of a list, and zero beyond its cutoff: k says how they end
    REDUCE = "reduce"
    # other names of some, until 0.3
    NEAR, FAR, PULL, SELDOM = NEIGHBOURS, KEPLER_SLOW, PERTURBATION, WHERE_RARELY
    SEED, TURN, TURN_LOW = RSQRT_ESTIMATE, ANGLE, ANGLE_LOW
    ARC_SIGN, ARC_DRIFT, ARC_KICK, ARC_LAG = HARMONIC_SIGN, HARMONIC_DRIFT, HARMONIC_KICK, HARMONIC_LAG


DRAWN = ("uniform", "normal")  # the kinds of random numbers
INSIDE = "inside"  # the arg of a DIV or SQRT whose numbers are known to be 0, or far from the ends of the range; no -0/x

Group = frozenset[Ops]


def section(first: Ops, last: Ops) -> Group:
    """The operations from one to another, in the order in which they are written above."""
    every = list(Ops)
    return frozenset(every[every.index(first) : every.index(last) + 1])


LEAVES: Group = section(Ops.CONST, Ops.RANGE)
UNARY: Group = section(Ops.NEG, Ops.BITCAST)
FUNCTIONS: Group = section(Ops.SQRT, Ops.ERF)  # of one real number
COMPARE: Group = section(Ops.LT, Ops.NE)
BINARY: Group = section(Ops.ADD, Ops.SAR)
HARMONIC: Group = section(Ops.HARMONIC_SIGN, Ops.HARMONIC_LAG)
TERNARY: Group = section(Ops.FMA, Ops.IMAGE) | HARMONIC
ELEMENTWISE: Group = UNARY | BINARY | TERNARY | {Ops.CUSTOM, Ops.RANDOM, Ops.KEPLER_SLOW}
MOVEMENT: Group = section(Ops.RESHAPE, Ops.SCATTER)
CHOSEN: Group = frozenset({Ops.GATHER, Ops.SCATTER})  # linear in the first source; the others are indices
JOINED: Group = frozenset({Ops.CONCAT, Ops.STACK})  # movements of several arrays
ORBITS: Group = section(Ops.JACOBI, Ops.PERTURBATION)
COMMUTATIVE: Group = section(Ops.AND, Ops.XOR) | {Ops.ADD, Ops.MUL, Ops.MIN, Ops.MAX, Ops.EQ, Ops.NE}
COMMUTATIVE |= {Ops.HYPOT, Ops.MULHI}

# what a transcendental function is rewritten to before it reaches a machine
MINIMAL: Group = LEAVES | MOVEMENT | COMPARE | section(Ops.ADD, Ops.DIV) | section(Ops.AND, Ops.MULHI)
MINIMAL |= {Ops.TDIV, Ops.SAR, Ops.FMA, Ops.SQRT, Ops.NEG, Ops.NOT, Ops.WHERE, Ops.CAST, Ops.BITCAST}
MINIMAL |= {Ops.REDUCE, Ops.FOURIER, Ops.ELLIPTIC, Ops.MESH, Ops.NEIGHBOURS, Ops.TREE, Ops.LINE, Ops.SOLVED}

ARITY: dict[Ops, int] = (
    {op: 0 for op in LEAVES}
    | {op: 1 for op in UNARY}
    | {op: 2 for op in BINARY}
    | {op: 3 for op in TERNARY}
    | {op: 1 for op in MOVEMENT - CHOSEN - JOINED}
    | {
        Ops.RANDOM: 5,
        Ops.KEPLER_SLOW: 7,
        Ops.LINE: 4,
        Ops.FOURIER: 2,
        Ops.MESH: 2,
        Ops.JACOBI: 2,
        Ops.KEPLER: 4,
        Ops.KEPLER_ALONG: 7,
        Ops.PERTURBATION: 3,
        Ops.RSQRT_ESTIMATE: 1,
    }
)
