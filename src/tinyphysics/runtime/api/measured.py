"""What can be measured of a compiled system?  What it conserves, how orbits part, its rest, its step, what a run takes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tinyphysics import up
from tinyphysics.errors import InputError
from tinyphysics.options import heeds
from tinyphysics.runtime.api.by_name import takes_names
from tinyphysics.runtime.api.quantities import as_numbers, units_for
from tinyphysics.runtime.stages.elsewhere import trials
from tinyphysics.runtime.stages.setup import Setup
from tinyphysics.runtime.state.ensemble import sizes_from
from tinyphysics.runtime.state.from_frame import BEGINS, opened
from tinyphysics.runtime.state.schedule import checked_time
from tinyphysics.system import SizedFamily

if TYPE_CHECKING:
    from tinyphysics.charge import Charge
    from tinyphysics.runtime.measure.lint import Lint
    from tinyphysics.runtime.measure.lyapunov import Lyapunov  # imported when they are measured
    from tinyphysics.runtime.measure.symplecticity import StepCheck


class Measured(Setup):
    """What is asked of a simulation besides its runs."""

    @property
    def conserved(self) -> tuple[Charge, ...]:
        """What the motion conserves, each with its symmetry, its proof, and how well this method keeps it.

        `for charge in sim.conserved: print(charge)`; `charge(q=..., p=...)` is its value at a state. What is not listed
        was not shown to be conserved; `sim.find_invariants()` looks further.
        """
        from tinyphysics.runtime.measure.charges import conserved

        return self._with_units(conserved(self.system, self.goal, self.compiled.known.method))

    def _with_units(self, found: tuple[Charge, ...]) -> tuple[Charge, ...]:
        """Charges that take quantities, of a system with units."""
        if units_for(self.system) is None:
            return found
        return type(found)(replace(charge, in_numbers=partial(as_numbers, self.system)) for charge in found)

    @takes_names
    @heeds("find_invariants", "sim.find_invariants(degree=4)")
    def find_invariants(self, degree: int = 4, **given: Any) -> tuple[Charge, ...]:
        """Looks for polynomials of the state up to a `degree` that are conserved; roots and exponentials of H join them.

        Returns the charges that are known and do not depend on t, then what is new: functions of known ones are left out.
        Parameters are `given` by name, or have their defaults; a proof holds for these. Where the bracket with H could not be
        reduced to zero, `charge.proof` says that it is numerical evidence.
        """
        from tinyphysics.runtime.measure.charges import find_invariants

        return self._with_units(
            find_invariants(self.system, self.goal, self.compiled.known.method, degree, given)
        )

    @takes_names
    @heeds("verify_symmetries", "sim.verify_symmetries(q=..., p=...)")
    def verify_symmetries(self, *state: Any, **given: Any) -> None:
        """Prints which symmetries of the energy were proved, and what they conserve: nothing is enforced.

        The states are given in their order, or by name, with parameters; a symmetry that a state contradicts is not printed.
        """
        from tinyphysics.runtime.measure.charges import verify_symmetries

        names = [s.name for s in self.system.seen.states]
        if len(state) > len(names):
            raise InputError(
                f"verify_symmetries takes {', '.join(names)} in this order, and {len(state)} arrays were passed",
                fix=f"Write sim.verify_symmetries({', '.join(f'{n}=...' for n in names)}); parameters go by name.",
            )
        own = as_numbers(self.system, dict(zip(names, state)))
        for line in verify_symmetries(self.system, own | given):
            print(line)

    @takes_names
    @heeds("minimise", "sim.minimise(q=...)")
    def minimise(
        self,
        *,
        steps: int = 10_000,
        force: float = 1e-6,
        move: float | None = None,
        t0: float = BEGINS,
        **given: Any,
    ) -> Any:
        """Minimises the energy, starting from the state `given` by name, until no force is larger than `force`.

        Momenta are not changed; they are zero if not given. There are at most `steps` evaluations, and no coordinate moves
        more than `move` in one of them; `t0` is the time.
        """
        given, t0 = opened(self.own_names, given, t0)
        if isinstance(self.source, SizedFamily):
            self.bind(self.source, sizes_from(self.source, given))
        self.in_own_time("minimise")
        from tinyphysics.runtime.measure.minimise import minimise

        return minimise(self, given, steps, force, move, checked_time(t0))

    @takes_names
    @heeds("consistent", "sim.consistent(q=..., p=...)")
    def consistent(self, **given: Any) -> dict[str, Any]:
        """Returns the nearest state on the constraints: `sim.evolve(**sim.consistent(q=..., p=...), steps=100)`.

        The states and parameters are `given` by name, as to `evolve`. Positions are the nearest with g(q) = 0 in the metric
        of the masses; momenta lose their part along Gᵀ. Parameters come back as they were given.
        """
        given, _ = opened(self.own_names, given, BEGINS)
        if isinstance(self.source, SizedFamily):
            self.bind(self.source, sizes_from(self.source, given))
        from tinyphysics.runtime.measure.consistent import consistent

        return consistent(self, given)

    @takes_names
    @heeds("suggest_dt", "sim.suggest_dt(q=..., p=..., error=1e-6)")
    def suggest_dt(
        self,
        *,
        error: float | None = None,
        energy_drift: float | None = None,
        until: float | None = None,
        t0: float = BEGINS,
        on: Any = None,
        **given: Any,
    ) -> float:
        """Returns the longest step of this method that was measured to meet the goals `error` and `energy_drift`.

        The trial runs start from the state `given` by name, at the time `t0`, and end at `until`, if it is given, which
        the step then divides; otherwise they last some dozens of vibrations. With `on=client` those of an ensemble run there.
        """
        self.in_own_time("suggest_dt")
        given, t0 = opened(self.own_names, given, t0)
        if isinstance(self.source, SizedFamily):
            self.bind(self.source, sizes_from(self.source, given))
        from tinyphysics.runtime.measure.accuracy import suggest_dt

        with trials(on):
            return suggest_dt(self, given, error, energy_drift, until, t0)

    @takes_names
    @heeds("suggest_split", "sim.suggest_split(q=..., p=...)")
    def suggest_split(self, *, t0: float = BEGINS, **given: Any) -> Any:
        """Says which parts of a sum, or terms of an energy, are fast and which slow, and how to give them different steps.

        The state is `given` by name, at the time `t0`. It is a proposal, and changes nothing.
        `print(sim.suggest_split(q=..., p=...))` shows frequencies and the expression.
        """
        given, t0 = opened(self.own_names, given, t0)
        from tinyphysics.runtime.measure.fast_parts import suggest_split

        return suggest_split(self, given, checked_time(t0))

    @takes_names
    @heeds("lint", "sim.lint(q=..., p=...)")
    def lint(self, **given: Any) -> Lint:
        """Looks for what would go wrong in a run: twelve causes, at the first state and in a few steps from it.

        The state and the parameters are `given` by name. `print(sim.lint(q=..., p=...))` shows each cause that was found,
        with its evidence, the term and the line, and what to write instead; `.clean` is True if there was none.
        """
        from tinyphysics.runtime.measure.lint import lint

        return lint(self, given)

    @takes_names
    @heeds("check", "sim.check(q=..., p=...)")
    def check(self, *, dt: float | None = None, **given: Any) -> StepCheck:
        """Measures one step at a state: is it symplectic, does it keep volumes, is it reversible, what is its order?

        The state and the parameters are `given` by name; `dt` is the step, that of the simulation if it is left out.
        Jacobians are exact derivatives in 106 bits, at dt, 2 dt and 4 dt. A VerifyError is raised where a map of pairs, or
        a certified method, is not symplectic. It needs the package mpmath: pip install "tinyphysics[measure]".
        """
        from tinyphysics.runtime.measure.symplecticity import check_step

        return check_step(self, dt, given)

    @takes_names
    @heeds("lyapunov", "sim.lyapunov(q=..., p=..., until=1e4)")
    def lyapunov(
        self,
        *,
        steps: int | None = None,
        until: float | None = None,
        t0: float = BEGINS,
        spectrum: int | str | None = None,
        discard: float | None = None,
        seed: int = 0,
        threads: int | None = None,
        progress: str | bool = "auto",
        **given: Any,
    ) -> Lyapunov:
        """Measures Lyapunov exponents: the rates, per unit of time, at which nearby orbits part.

        The state and the parameters are `given` by name; a leading axis makes an ensemble. Directions move by the derivative
        of the very step that runs, for `steps` steps or until the time `until`, from `t0`. `spectrum` is how many exponents
        are measured, "all" of them, or the largest alone. What happens in the time `discard` is left out, by default a tenth
        of the run. The first directions are random, from `seed`; `threads` and `progress` are those of evolve.
        """
        from tinyphysics.runtime.measure.lyapunov import lyapunov

        return lyapunov(self, given, steps, until, t0, spectrum, discard, seed, threads, progress)

    @takes_names
    @heeds("sensitivity", 'sim.sensitivity(of="q[2]", to="q[1, 0]", until=100.0, q=..., p=...)')
    def sensitivity(
        self,
        *,
        of: str,
        to: str,
        steps: int | None = None,
        until: float | None = None,
        t0: float = BEGINS,
        threads: int | None = None,
        **given: Any,
    ) -> Any:
        """Returns the derivative of a state at the end of a run by one number of its first state.

        `of` names the state, or a part of it, or a difference: "q[2]", "q[2] - q[0]"; `to` names one number: "q[1, 0]". The
        first state and the parameters are `given` by name; the run takes `steps` steps or ends at `until`, from `t0`, on so
        many `threads`. The derivative is that of the steps that run.
        """
        from tinyphysics.runtime.measure.sensitivity import sensitivity

        return sensitivity(self, of, to, given, steps, until, t0, threads)

    @heeds("estimate", "sim.estimate(steps=1_000_000)")
    def estimate(
        self,
        *,
        steps: int,
        members: int = 1,
        frames: int | None = None,
        gradient: bool = False,
        past: str = "auto",
        memory: int | None = None,
        snapshots: int | None = None,
        on: Any = None,
    ) -> dict[str, Any]:
        """Returns the seconds and bytes that a run of so many `steps`, `members` and `frames` will take.

        They come from a short trial on this machine. Without `frames`, a run keeps those of the default. With `gradient=True`
        they are those of value_and_grad, with the `past` that is chosen, how many `snapshots` it keeps and the steps that it
        takes forward; `past`, `memory` and `snapshots` are its options. With `on=client` a list `["workers"]` says
        how long it would take on 1 to 10,000 workers, beside what a trial on those there are has shown.
        """
        from tinyphysics.runtime.api.estimate import estimate, estimate_gradient

        if gradient:
            return estimate_gradient(self, steps, members, past, memory, snapshots)
        found = estimate(self, steps, members, frames)
        if on is None:
            return found
        return found | {"workers": up.elsewhere(on).estimate(self, steps, members, found["seconds"])}
