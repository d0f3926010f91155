"""How does the end of a run change with its beginning?  Gradients, and products with the Jacobian of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tinyphysics.options import heeds
from tinyphysics.runtime.api.by_name import takes_names
from tinyphysics.runtime.api.measured import Measured
from tinyphysics.runtime.stages.resolve import Request
from tinyphysics.runtime.state.from_frame import BEGINS

if TYPE_CHECKING:
    from tinyphysics.runtime.measure.adjoint_listing import Adjoint  # imported when they are asked for
    from tinyphysics.runtime.measure.gradcheck import GradCheck
    from tinyphysics.runtime.measure.gradients import Gradients
    from tinyphysics.runtime.measure.tape import Tape


class Differentiated(Measured):
    """What is asked of the derivatives of a run."""

    @heeds("adjoint", "sim.adjoint()")
    def adjoint(self, wrt: Sequence[str] | None = None, past: str = "auto") -> Adjoint:
        """Returns the program that pulls cotangents back through the steps: `print(sim.adjoint().ir("tpir"))`.

        `wrt` names what it differentiates by, as in value_and_grad. With `past="reverse"` it takes the states back by inverse
        sub-flows; with "store" or "checkpoint" it begins each step with the state that this step began with.
        """
        from tinyphysics.runtime.measure.adjoint_listing import adjoint

        return adjoint(self, wrt, past)

    @takes_names
    @heeds(
        "value_and_grad",
        "sim.value_and_grad(lambda out: out.final.q @ out.final.q, q=..., p=..., steps=1000)",
    )
    def value_and_grad(
        self,
        loss: Callable[..., Any],
        *,
        steps: int | None = None,
        until: float | None = None,
        t0: float = BEGINS,
        save_every: int | None = None,
        save_at: Any = None,
        frames: int | None = None,
        observe: Mapping[str, Callable[..., Any]] | None = None,
        observe_every: int = 1,
        acts: Mapping[str, Any] | None = None,
        seed: int = 0,
        threads: int | None = None,
        wrt: Sequence[str] | None = None,
        past: str = "auto",
        memory: int | None = None,
        snapshots: int | None = None,
        checkpoint: Any = None,
        resume: Any = None,
        per_member: bool = False,
        **given: Any,
    ) -> tuple[Any, Gradients]:
        """Returns a loss of a run and its exact gradients: `value, grads = sim.value_and_grad(loss, q=..., steps=1000)`.

        `loss(out)` reads `out.final.q`, frames `out.q`, observables `out["name"]` and `out.t`, and returns one number; of an
        ensemble it is the loss of one member, and gradients are those of the sum. `grads["q"]` has the shape of q.

        steps, until, t0, save_every, save_at, frames, observe, observe_every, acts, seed, threads  as in evolve
        wrt         names of states and parameters, and "dt"; by default all states and parameters
        past        "auto", "reverse", "checkpoint" or "store": how the states of the past are known
        memory      bytes for the states that are kept; snapshots is how many of them, those that do not fit on disk
        checkpoint  a file for a way back that is interrupted (Ctrl-C); resume= goes on with it, to the same bits
        per_member  of an ensemble, gradients by shared parameters member by member, instead of their sum
        given       states and parameters by name
        """
        from tinyphysics.runtime.measure.differentiate import value_and_grad

        request = Request(**asked(locals()))
        return value_and_grad(self, loss, request, wrt, past, memory, snapshots, per_member)

    @takes_names
    @heeds("grad", "sim.grad(lambda out: out.final.q @ out.final.q, q=..., p=..., steps=1000)")
    def grad(self, loss: Callable[..., Any], **given: Any) -> Gradients:
        """Returns the gradients of a loss alone; the arguments are those of value_and_grad."""
        grads: Gradients = self.value_and_grad(loss, **given)[1]
        return grads

    @takes_names
    @heeds("vjp", 'sim.vjp({"q": [1.0, 0.0]}, q=..., p=..., steps=1000)')
    def vjp(
        self,
        cotangents: Mapping[str, Any],
        *,
        steps: int | None = None,
        until: float | None = None,
        t0: float = BEGINS,
        save_every: int | None = None,
        save_at: Any = None,
        frames: int | None = None,
        acts: Mapping[str, Any] | None = None,
        seed: int = 0,
        threads: int | None = None,
        wrt: Sequence[str] | None = None,
        past: str = "auto",
        memory: int | None = None,
        snapshots: int | None = None,
        checkpoint: Any = None,
        resume: Any = None,
        per_member: bool = False,
        **given: Any,
    ) -> Gradients:
        """Returns cotangents of the end of a run pulled back to its beginning: the transposed Jacobian times them.

        `cotangents` has arrays of the shape of `out.final.q`; where frames are asked for, of the shape of `out.q`. The other
        arguments are those of value_and_grad.
        """
        from tinyphysics.runtime.measure.differentiate import vjp

        request = Request(**asked(locals()))
        return vjp(self, cotangents, request, wrt, past, memory, snapshots, per_member)

    @takes_names
    @heeds("jvp", 'sim.jvp({"q": [1.0, 0.0]}, q=..., p=..., steps=1000)')
    def jvp(
        self,
        tangents: Mapping[str, Any],
        *,
        steps: int | None = None,
        until: float | None = None,
        t0: float = BEGINS,
        save_every: int | None = None,
        save_at: Any = None,
        frames: int | None = None,
        acts: Mapping[str, Any] | None = None,
        seed: int = 0,
        threads: int | None = None,
        **given: Any,
    ) -> dict[str, Any]:
        """Returns how the end of a run moves along `tangents` of its first state and parameters: the Jacobian times them.

        The result has the states of the end by name; where frames are asked for, those of the frames. It is the derivative of
        the steps that run. With time=, project= or a tangent of dt it takes as many cotangents as
        the state has numbers.
        """
        from tinyphysics.runtime.measure.forward_mode import jvp

        return jvp(self, tangents, Request(**asked(locals())))

    @takes_names
    @heeds(
        "hvp", 'sim.hvp(lambda out: out.final.q @ out.final.q, {"q": [1.0, 0.0]}, q=..., p=..., steps=1000)'
    )
    def hvp(
        self,
        loss: Callable[..., Any],
        directions: Mapping[str, Any],
        *,
        steps: int | None = None,
        until: float | None = None,
        t0: float = BEGINS,
        save_every: int | None = None,
        save_at: Any = None,
        frames: int | None = None,
        acts: Mapping[str, Any] | None = None,
        seed: int = 0,
        threads: int | None = None,
        wrt: Sequence[str] | None = None,
        past: str = "auto",
        memory: int | None = None,
        snapshots: int | None = None,
        per_member: bool = False,
        **given: Any,
    ) -> Gradients:
        """Returns the second derivatives of a loss times `directions` of the first state and parameters.

        It is the exact gradient of the derivative of the loss along the direction. The other arguments are those of
        value_and_grad; a loss of frames is possible, of observables not yet.
        """
        from tinyphysics.runtime.measure.forward_mode import hvp

        request = Request(**asked(locals()))
        return hvp(self, loss, directions, request, wrt, past, memory, snapshots, per_member)

    @takes_names
    @heeds("gradcheck", "sim.gradcheck(lambda out: out.final.q @ out.final.q, q=..., p=..., steps=100)")
    def gradcheck(
        self,
        loss: Callable[..., Any],
        *,
        steps: int | None = None,
        until: float | None = None,
        t0: float = BEGINS,
        save_every: int | None = None,
        save_at: Any = None,
        frames: int | None = None,
        acts: Mapping[str, Any] | None = None,
        seed: int = 0,
        wrt: Sequence[str] | None = None,
        tolerance: float = 1e-7,
        **given: Any,
    ) -> GradCheck:
        """Compares the gradient of a loss with other ways to it at these inputs; a VerifyError where they differ.

        Cotangents against tangents, central differences of runs in double-double along a random direction (`tolerance` is how
        far these may be apart, relative to the gradient), and every `past` against the others. The other arguments are those
        of value_and_grad.
        """
        from tinyphysics.runtime.measure.gradcheck import gradcheck

        return gradcheck(self, loss, Request(**asked(locals())), wrt, tolerance, seed)

    @takes_names
    @heeds("jacobian", 'sim.jacobian(of=["q"], wrt=["mu"], q=..., p=..., steps=1000)')
    def jacobian(
        self,
        *,
        of: Sequence[str] | None = None,
        wrt: Sequence[str] | None = None,
        steps: int | None = None,
        until: float | None = None,
        t0: float = BEGINS,
        acts: Mapping[str, Any] | None = None,
        seed: int = 0,
        threads: int | None = None,
        past: str = "auto",
        **given: Any,
    ) -> dict[str, dict[str, Any]]:
        """Returns the derivatives of the last state by the first one and by parameters: `J["q"]["mu"]`.

        Each has the shape of the state at the end, then that of what it is derived by. `of` and `wrt` name these.
        """
        from tinyphysics.runtime.measure.forward_mode import jacobian

        return jacobian(self, of, wrt, past, Request(**asked(locals())))

    @takes_names
    @heeds("tape", "print(sim.tape(step=3, q=..., p=...))")
    def tape(
        self,
        *,
        step: int,
        cotangents: Mapping[str, Any] | None = None,
        t0: float = BEGINS,
        seed: int = 0,
        **given: Any,
    ) -> Tape:
        """Returns one step of a run and its adjoint, operation by operation: `print(sim.tape(step=3, q=..., p=...))`.

        step        the number of the step, from 0
        cotangents  of the state after the step, by name; ones, if nothing is said
        given       states and parameters by name, at the beginning of the run
        """
        from tinyphysics.runtime.measure.tape import tape

        return tape(self, step, cotangents, Request(**asked(locals())))


def asked(said: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call that a run takes."""
    names = Request.__dataclass_fields__
    return {name: value for name, value in said.items() if name in names}
