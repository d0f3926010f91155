"""What does a program conserve?  The readers in their order; a certificate, or which rule is broken.

Every certificate speaks of exact arithmetic and is one-sided: what is not shown does not hold.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from pkgutil import iter_modules

from tinyphysics.errors import TinyPhysicsError, VerifyError
from tinyphysics.ir.value import CUSTOM
from tinyphysics.rules.calculus.elliptic import MULTIGRID
from tinyphysics.rules.functions.user_derivatives import trouble_with
from tinyphysics.structure import CLAIMS, Structure
from tinyphysics.tpir.precision.precision import in_reals, out_of_range
from tinyphysics.tpir.program.bare import needed, reads
from tinyphysics.tpir.program.isa import Instruction, Program
from tinyphysics.tpir.proof import readers
from tinyphysics.tpir.proof.blocks import Blocks
from tinyphysics.tpir.proof.certificate import Certificate as Certificate
from tinyphysics.tpir.proof.certificate import Verdict as Verdict
from tinyphysics.tpir.proof.walk import Reader, Walk


def in_order() -> tuple[type[Reader], ...]:
    """The readers of the files of tpir/proof/readers/, by their ranks."""
    files = [import_module(f"{readers.__name__}.{file.name}") for file in iter_modules(readers.__path__)]
    own = [x for file in files for x in vars(file).values() if getattr(x, "__module__", "") == file.__name__]
    return tuple(sorted((x for x in own if hasattr(x, "rank")), key=lambda reader: reader.rank))


# the first that a program needs reads it; they do not mix: a program that turns oscillators and goes on orbits is a no
READERS = in_order()


def reader_of(program: Program) -> Reader:
    """Of a program in real numbers."""
    return next(r for r in READERS if r.has(program))(program)


def verify(program: Program) -> Certificate:
    """The certificate of a program; a VerifyError if it is malformed or claims what is not shown."""
    if not isinstance(program, Program):
        raise VerifyError(
            f"verify takes a Program, not a {type(program).__name__}", fix="tpir.parse(text) makes one."
        )
    try:
        return shown(program)
    except TinyPhysicsError:
        raise
    except MALFORMED as error:  # what no reader looked for: never a certificate, and the line is named
        raise VerifyError(
            f"{line_of(error) or f'a line of `{program.name}`'} is malformed: its operands are not those of its instruction",
            fix="docs/tpir.md has the operands of each instruction.",
        ) from error


MALFORMED = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    StopIteration,
    TypeError,
    ValueError,
)


def line_of(error: BaseException) -> str:
    """The line that was read when something failed, as far as what was running knows it."""
    found, tb = "", error.__traceback__
    while tb is not None:
        known = tb.tb_frame.f_locals
        for name in ("i", "instruction"):
            found = f"`{known[name]}`" if isinstance(known.get(name), Instruction) else found
        where = known.get("where")
        found = where if isinstance(where, str) and "`" in where else found
        tb = tb.tb_next
    return found


def shown(program: Program) -> Certificate:
    exact = in_reals(program)
    if exact is not program:
        Blocks(program)  # its types must fit as they are written
        for i, x in out_of_range(program):
            raise VerifyError(
                f"`{i}` holds the constant {x!r}, which is out of the range of its type",
                fix="Choose other units, or write f64.",
            )
    certificate = certified(replace(exact, claims=()))
    for claim in program.claims:
        verdict = certificate.get(claim, not_known(claim))
        if not verdict:
            found = reader_of(exact).walk
            told = remedy(found, claim, verdict)
            if program.bare and (mended := corrected(program, found)) is not None:
                told += f"\n  The corrected listing:\n{textwrap.indent(str(mended), '    ').rstrip()}"
            raise VerifyError(verdict.because, fix=told)
    return certificate


def corrected(program: Program, walk: Walk) -> Program | None:
    """A listing with its stale flows computed again where they are used, if it is then what it claims."""
    for _ in program.states:
        if (stale := walk.stale) is None:
            break
        program = fresh(program, next(i for i in program.step if i == stale.instruction))
        walk = reader_of(in_reals(replace(program, claims=()))).walk
    shown = certified(in_reals(replace(program, claims=())))
    return program if all(shown[claim] for claim in program.claims) else None


def fresh(program: Program, stale: Instruction) -> Program:
    """The listing that was meant: the flow is computed directly before it is used, and nowhere without a use."""
    step = list(program.step)
    at = next(k for k, i in enumerate(step) if i is stale)
    own = sorted(needed(step[: at + 1], [stale]) - {at})
    own = [k for k in own if step[k].row.numbers != "by_flow"]
    again = [step[k] for k in own]
    others = [i for k, i in enumerate(step) if k not in own and k != at]
    left = [
        i for k, i in enumerate(step[:at]) if k not in own or any(i.dst in reads(other) for other in others)
    ]
    return replace(program, step=(*left, *again, stale, *step[at + 1 :]))


@lru_cache(maxsize=4)  # who compares methods asks again about the one that is taken
def certified(program: Program) -> Certificate:
    reader = reader_of(program)
    found = meaningful(reader.verdicts(), reader.walk.structure)
    if why := wrong_derivative(program):
        no = Verdict(False, why)
        spoilt = tuple(found) if reader.by_derivatives else (reader.walk.structure.headline, "consistent")
        found = found | dict.fromkeys(spoilt, no)
    headline = reader.walk.structure.headline
    if found[headline] and (left := left_of_residuals(program)):
        told = f"{found[headline].because}; to the residual of tp.poisson, {left:g} of its right-hand side"
        found = found | {headline: Verdict(True, told)}
    return found


def left_of_residuals(program: Program) -> float:
    """What tp.poisson may leave of a residual; 0 where transforms solve, or so many cycles that are a symmetric matrix."""
    most = 0.0
    for i in (i for _, _, i in program.numbered() if i.op == "ELLIPTIC"):
        tolerance, numbers = i.args[-2:]
        assert isinstance(tolerance, float) and isinstance(numbers, tuple)
        if numbers[-3] == MULTIGRID and not numbers[-2]:
            most = max(most, tolerance)
    return most


def meaningful(verdicts: Mapping[str, Verdict], structure: Structure) -> Certificate:
    """The claims that a structure has, in its order, and what its reader shows that is a claim of no structure."""
    named = structure.reads_as
    own = {claim: verdicts.get(named.get(claim, claim), not_known(claim)) for claim in structure.claims}
    return Certificate(own | {name: v for name, v in verdicts.items() if name not in CLAIMS})


def not_known(claim: str) -> Verdict:
    return Verdict(False, f"nothing is known about `{claim}` of such a program")


def wrong_derivative(program: Program) -> str:
    """Why the derivative of a user's operation is not believed; empty if all are those of their definitions."""
    for _, _, i in program.numbered():
        name = str(i.args[0]).removeprefix("custom.") if i.op == "ELEM" else ""
        if name in CUSTOM and (why := trouble_with(name, len(i.args) - 1)):
            return why
    return ""


def remedy(walk: Walk, claim: str, verdict: Verdict) -> str:
    if walk.stale is not None and claim in ("symplectic", "volume-preserving"):
        if walk.program.states[walk.stale.state].role == "position":
            return "Recompute dH/dp after the kick (symplectic Euler), or split the drift in two (leapfrog)."
        return "Recompute dH/dq after the drift (symplectic Euler), or split the kick in two (leapfrog)."
    if claim == "poisson" and any(i.row.numbers == "by_flow" for i in walk.program.step):
        return (
            "Adding P(z) dH by SYMP_STEP leaves the sphere: |L| grows. Turn states exactly: TURN, as "
            'method="rotations" writes it.'
        )
    if "adds position" in verdict.because or "adds momentum" in verdict.because:
        return "A position moves by h*dH/dp, a momentum by -h*dH/dq: SYMP_STEP S0, F0, h."
    return f"The program claims `{claim}`: mend this, or drop the claim."
