"""An ion in a magnetic bottle spirals between two turning points; Boris keeps its speed to rounding, and volumes by proof."""

import tinyphysics as tp
from tinyphysics import plasma

field = plasma.mirror(b=10.0, length=1.0)
bottle = plasma.System(B_field=field)
start = dict(q=[0.01, 0.0, 0.0], p=[0.0, 0.1, 0.05])
dt = 0.01
sim = tp.compile(bottle, dt=dt)
print(sim.built.plan.method, "|", sim.certificate.volume_preserving.because)
moment = {"moment": plasma.magnetic_moment(field)}
out = sim.evolve(**start, steps=12_000, save_every=10, observe=moment)
mu = out["moment"]
print(f"it turns back at z = {abs(out.q[:, 2]).max():.3f}, where B is its energy over its moment: z = 0.5")
print(f"the moment stays within {abs(mu / mu[0] - 1).max():.1e}, the energy within {out.drift('energy'):.0e}")
assert out.drift("energy") < 1e-12
