"""What can go wrong, by name: every error says what happened, where, and what to write instead.

The docs' error index is printed from this file: the docstring is the meaning, `causes` the usual reasons.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from tinyphysics.util import Site, user_site


class TinyPhysicsError(Exception):
    """The base of every error that tinyphysics raises on purpose."""

    causes: ClassVar[tuple[str, ...]] = ()

    def __init__(self, what: str, *, site: Site | None = None, fix: str | None = None) -> None:
        self.what, self.site, self.fix = what, site, fix
        place = f" ({site})" if site else ""
        remedy = f"\n  {fix}" if fix else ""
        super().__init__(f"{what}{place}.{remedy}")

    @classmethod
    def here(cls, what: str, fix: str) -> Self:
        """The error at the line of the user's file that is being traced."""
        return cls(what, site=user_site(), fix=fix)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.what, self.site, self.fix)


def _rebuild(
    kind: type[TinyPhysicsError],
    what: str,
    site: Site | None,
    fix: str | None,
    more: dict[str, Any] | None = None,
) -> Any:
    return kind(what, site=site, fix=fix, **(more or {}))


class InputError(TinyPhysicsError, ValueError):
    """A value given to `compile`, `evolve` or the command line is missing, unknown or out of range."""

    causes = (
        "a state was left out, or a name was misspelt",
        "`until` of a map, or on the lattice, is not a whole number of steps from t0",
        "leading (ensemble) axes of two arguments differ",
    )


class TraceError(TinyPhysicsError, TypeError):
    """The user's function did something that has no meaning on symbols."""

    causes = (
        "`if`, `and`, `min()` or a chained comparison on a symbol: write tp.where",
        "`math.sin(q)` or `float(q)`: write np.sin(q) or tp.sin(q)",
        "`q[0] = ...`: symbols are immutable, build the new array with np.stack",
        "the energy does not depend on a momentum it was given",
    )


class ShapeError(TinyPhysicsError, ValueError):
    """Shapes do not fit: in the traced function, or between an annotation and a value."""

    causes = (
        "two arrays in one expression do not broadcast",
        "the energy is not a scalar: sum it",
        "a state has another shape than its annotation says",
    )


class UnitError(TinyPhysicsError, ValueError):
    """Units do not fit: terms of a sum differ, a function is given a length, or a unit has no name here."""

    causes = (
        "two terms of an energy have different units, or the same in different sizes: km and m",
        "`tp.exp(q)` where q is a length: divide by another length",
        "a quantity was passed for a parameter whose unit is unknown, or of another dimension",
        "a unit in an annotation is misspelt",
    )


class PlanError(TinyPhysicsError, ValueError):
    """No method does what was asked, or the argument asks for something that does not exist yet."""

    causes = (
        "an explicit splitting was requested for an energy that is not separable",
        "an unknown method, backend or precision name",
        "an argument for a feature that does not exist yet",
        "`approximate=` where there is no sum of 1/r over pairs to approximate, or with a budget that cannot be met",
        "`energy_drift=` or `error=` that no method meets: the message lists what each was measured to do",
    )


class VerifyError(TinyPhysicsError):
    """A TP-IR program is malformed, or does not have the structure that it claims."""

    causes = (
        "a flow computed before a state that it read was rewritten (a stale flow)",
        "a kick that leaves out a momentum whose position occurs in the potential",
        "a force that is not a gradient, under a symplectic claim",
        "a position added to a momentum",
    )


class BackendError(TinyPhysicsError, RuntimeError):
    """The requested backend is not available; no other one was tried in its place."""

    causes = ("the backend's compiler, driver or package is not installed", "its name is misspelt")


class StoreError(TinyPhysicsError, OSError):
    """A file could not be written or read, or belongs to another program."""

    causes = (
        "no permission, no space",
        "a file that another program or version wrote",
        "a checkpoint or store that is there already, of this run or of another",
        "a checkpoint that was cut off or altered",
    )


class PhysicsIntegrityError(TinyPhysicsError, ArithmeticError):
    """A run failed one of its checks under `checks="strict"`; what it has computed is in `.out`."""

    causes = (
        "a state became infinite or NaN: the step is too long, or two bodies met",
        "a quantity that the method keeps to rounding was changed by a step, or a step passed a pole of the energy",
        "the energy at a frame is off by more than 5 % of the sizes of its terms, or dt is beyond the limit of the method",
        "a goal, `energy_drift=` or `error=`, was missed in the run: its errors grew faster than those of the pilot",
    )

    def __init__(
        self,
        what: str,
        *,
        site: Site | None = None,
        fix: str | None = None,
        out: Any = None,
        evidence: Any = None,
    ) -> None:
        super().__init__(what, site=site, fix=fix)
        self.out = out
        self.evidence = {} if evidence is None else dict(evidence)  # numbers and names of the message

    def __reduce__(self) -> tuple[Any, ...]:
        more = {"out": self.out, "evidence": self.evidence}
        return _rebuild, (type(self), self.what, self.site, self.fix, more)


class PhysicsWarning(UserWarning):
    """A run finished but looks wrong: its energy is far off, or its time step is beyond the stability limit of the method.

    The same text is in `out.metrics["notes"]`. With `checks="strict"` a PhysicsIntegrityError is raised; `"off"` is silent.
    """


ERRORS: tuple[type[TinyPhysicsError], ...] = (
    TinyPhysicsError,
    InputError,
    TraceError,
    ShapeError,
    UnitError,
    PlanError,
    VerifyError,
    BackendError,
    StoreError,
    PhysicsIntegrityError,
)
