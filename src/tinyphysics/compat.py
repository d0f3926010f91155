"""Other names for the same things: `Compiler(H).emit()`, `AutoLinearizer(H, ...)`, `LagrangianSystem(L)`,
`ReversibleSymplecticIntegrator(H)`, method names."""

from __future__ import annotations

import logging
from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any

import numpy as np

from tinyphysics.analysis.quadratic import polynomial
from tinyphysics.errors import PlanError
from tinyphysics.front.lagrangian import lagrangian
from tinyphysics.front.spaces import Space
from tinyphysics.front.trace import hamiltonian
from tinyphysics.kernel import compile as compile_step
from tinyphysics.kernel import traced
from tinyphysics.learn.calls import torch_module
from tinyphysics.rules.calculus.hessian import Hessian, hessian
from tinyphysics.runtime.api.compile import compile as compiled
from tinyphysics.runtime.measure.from_the_end import taken_back
from tinyphysics.tpir.program.isa import Instruction, Program

SymplecticEuler = "symplectic_euler"
Leapfrog = "leapfrog"
Yoshida4 = "yoshida4"


class Compiler:
    """From a Hamiltonian to its list of TP-IR instructions.

    >>> listing = Compiler(lambda q, p: p**2/2 + q**2/2).emit()
    >>> print(*(str(i) for i in listing[6:12]), sep="\\n")
    GRAD_INIT G1, S1
    POISSON_J F0, G1, pass
    SYMP_STEP S0, F0, $dt
    GRAD_INIT G0, S0
    POISSON_J F1, G0, negate
    SYMP_STEP S1, F1, $dt
    """

    def __init__(self, H: Any, dt: float = 0.01, method: str = SymplecticEuler) -> None:
        self.program: Program = compiled(traced(H), dt, method=method).tpir

    def emit(self) -> list[Instruction]:
        """Every instruction, in the order of the listing: energy, init, step, final."""
        return [instruction for _, _, instruction in self.program.numbered()]


def annotated(function: Any, names: tuple[str, str], shape: tuple[int, ...]) -> Any:
    """The function with arguments of a shape, where it does not say one itself."""
    if not shape:
        return function

    def energy(a: Any, b: Any) -> Any:
        return function(a, b)

    energy.__name__ = getattr(function, "__name__", "H").strip("<>")
    signature = Signature([Parameter(n, Parameter.POSITIONAL_ONLY, annotation=Space(shape)) for n in names])
    energy.__signature__ = signature  # type: ignore[attr-defined]
    energy.__annotations__ = dict.fromkeys(names, Space(shape))
    return energy


class HamiltonianSystem:
    """A system that is given by its energy H(q, p); one that is given by anything else has the same two methods.

    >>> step = HamiltonianSystem(lambda q, p: p**2/2 + q**2/2).to_symplectic_step(dt=0.5)
    >>> q, p = step(1.0, 0.0)
    >>> float(q), float(p)
    (0.875, -0.46875)
    """

    method = Leapfrog

    def __init__(self, function: Any, q_shape: tuple[int, ...] = ()) -> None:
        self.system = self.written(function, q_shape)

    def written(self, function: Any, shape: tuple[int, ...]) -> Any:
        return hamiltonian(annotated(function, ("q", "p"), shape))

    def compile(self, dt: float | None = None, **options: Any) -> Any:
        """`tp.compile(system, dt, ...)`."""
        return compiled(self.system, dt, **options)

    def to_symplectic_step(
        self, dt: float = 0.01, method: str | None = None
    ) -> Callable[..., tuple[Any, ...]]:
        """(q, p) -> (q, p) one dt later, by a method that is certified symplectic."""
        step = compile_step(self.system, method or self.method, dt)
        shown = step.certificate.symplectic  # type: ignore[attr-defined]
        if not shown:
            raise PlanError(
                f"`{method or self.method}` of `{self.system.name}` is not shown to be symplectic: {shown.because}",
                fix="Choose another method, or compile it without requiring this: system.compile(dt=0.01).",
            )
        return step


class LagrangianSystem(HamiltonianSystem):
    """A system that is given by its Lagrangian L(q, v); its steps are (q, p) -> (q, p), as those of a HamiltonianSystem.

    >>> import tinyphysics as tp
    >>> step = LagrangianSystem(lambda q, v: v**2/2 + tp.cos(q)).to_symplectic_step(dt=0.01)
    >>> q, p = step(1.0, 0.0)
    >>> round(float(q), 9), round(float(p), 9)
    (0.999957927, -0.008414596)
    """

    method = "variational_midpoint"

    def written(self, function: Any, shape: tuple[int, ...]) -> Any:
        return lagrangian(annotated(function, ("q", "v"), shape))


LINEAR = "[Compiler] System is Linear! Using Matrix Acceleration."
STEPPED = "[Compiler] System is Non-Linear. Using Iterative Solver."
LOG = logging.getLogger("tinyphysics")


class AutoLinearizer:
    """Is H quadratic, with which matrices, and what does it do to a state in many steps?

    >>> fast = AutoLinearizer(lambda q, p: (p**2).sum()/2 + (q**2).sum()/2, (2,), (2,))
    >>> K, M_inv = fast.check_and_extract()
    >>> K.tolist(), M_inv.tolist()
    ([[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]])
    >>> q, p = fast.compile_step(steps=10**9, dt=0.01)([1.0, 0.0], [0.0, 0.0])
    >>> round(float(q[0]), 12)
    0.924000862426
    """

    def __init__(
        self, hamiltonian_func: Any, q_shape: tuple[int, ...] = (), p_shape: tuple[int, ...] = ()
    ) -> None:
        def energy(q: Any, p: Any) -> Any:
            return hamiltonian_func(q, p)

        energy.__name__ = getattr(hamiltonian_func, "__name__", "H").strip("<>")
        for name, shape in (("q", q_shape), ("p", p_shape)):
            energy.__annotations__[name] = Space(shape)
        self.system = hamiltonian(energy).bind()

    def matrices(self) -> Hessian | None:
        """The whole Hessian, products of q and p and the linear part included; None if H is of higher degree."""
        bound, system = polynomial(self.system), self.system
        if not bound or bound.degree > 2:
            return None
        assert system.energy is not None
        return hessian(system.energy, system.q, system.p, {})

    def check_and_extract(self) -> tuple[Any, Any] | None:
        """(K, M_inv) of q K q/2 + p M_inv p/2; None where H is of higher degree, or has other terms too."""
        found = self.matrices()
        LOG.info(STEPPED if found is None else LINEAR)
        if found is None or found.mixes or any(found.linear):
            return None
        n = found.pairs
        K, M_inv = (
            np.array([[float(row.get(k, 0)) for k in range(n)] for row in found.block(part, part)])
            for part in (False, True)
        )
        return K, M_inv

    def compile_step(self, steps: int, dt: float) -> Callable[[Any, Any], tuple[Any, Any]]:
        """(q, p) -> the state after some steps of leapfrog at once; one by one where H is of higher degree.

        Where q and p are mixed there is no leapfrog, and it is the flow.
        """
        found = self.matrices()
        LOG.info(STEPPED if found is None else LINEAR)
        way = "loop" if found is None else "exact" if found.mixes else "method"
        sim = compiled(self.system, dt, propagator=way)

        def fast_forward(q: Any, p: Any) -> tuple[Any, Any]:
            end = sim.evolve(q=q, p=p, steps=steps, frames=2, progress=False).final
            return end.q, end.p

        return fast_forward


def evolve_adjoint(
    H: Any, q: Any, p: Any, steps: int, dt: float, grad_q: Any, grad_p: Any, method: str = Leapfrog
) -> tuple[Any, Any, Any, Any]:
    """(q, p, grad_q, grad_p) `steps` earlier, from the state and the cotangents at the end: nothing else is stored.

    Steps are taken back by the inverses of their sub-flows on the integer lattice, where every bit comes back. A step with
    -dt would invert symmetric methods only, and in floating point chaos loses the past.

    >>> import tinyphysics as tp
    >>> def pendulum(q, p): return p**2/2 - tp.cos(q)
    >>> q, p = ReversibleSymplecticIntegrator(pendulum, dt=0.01)(1.0, 0.0, steps=1000)
    >>> q0, p0, by_q, by_p = evolve_adjoint(pendulum, q, p, 1000, 0.01, 1.0, 0.0)
    >>> float(q0), float(p0), round(float(by_q), 6), round(float(by_p), 6)
    (1.0, 0.0, -0.943554, 0.049916)
    """
    shape = np.shape(q)
    return ReversibleSymplecticIntegrator(H, dt, shape, method).evolve_adjoint(q, p, steps, grad_q, grad_p)


class ReversibleSymplecticIntegrator:
    """Runs whose gradients need memory for one state, whatever their length: `integrator(q, p, steps=10**6)`.

    States lie on the integer lattice, so that the way back is exact. Tensors of torch go in and come out as tensors, with
    gradients; other arrays come out as those of NumPy, and `evolve_adjoint` has their gradients.
    """

    def __init__(
        self, H: Any, dt: float = 0.01, q_shape: tuple[int, ...] = (), method: str = Leapfrog
    ) -> None:
        if not dt > 0:
            raise PlanError(
                f"dt={dt!r}: a run is not taken back by steps of -dt, which invert symmetric methods only",
                fix="Pass the dt of the run forward: evolve_adjoint goes back by the inverses of its sub-flows.",
            )
        system = H if hasattr(H, "compile") else hamiltonian(annotated(H, ("q", "p"), q_shape))
        self.sim = compiled(system, dt, method=method, precision="lattice", propagator="loop")
        self.layers: dict[int, Any] = {}  # of torch, by the number of steps

    def __call__(self, q: Any, p: Any, steps: int) -> tuple[Any, Any]:
        if type(q).__module__.partition(".")[0] == "torch":
            if steps not in self.layers:
                self.layers[steps] = torch_module(self.sim, steps=steps, past="reverse")
            return tuple(self.layers[steps](q, p))
        end = self.sim.evolve(q=q, p=p, steps=steps, frames=2, progress=False).final
        return end.q, end.p

    def evolve_adjoint(
        self, q: Any, p: Any, steps: int, grad_q: Any, grad_p: Any
    ) -> tuple[Any, Any, Any, Any]:
        """(q, p, grad_q, grad_p) `steps` earlier."""
        return taken_back(self.sim, {"q": q, "p": p}, steps, {"q": grad_q, "p": grad_p})
