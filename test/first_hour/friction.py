"""A spring with friction, as a force of position and velocity."""

import tinyphysics as tp


@tp.forces
def spring(x, v, k=1.0, gamma=0.1):
    return -k * x - gamma * v


out = spring.compile(dt=0.01).evolve(x=1.0, p=0.0, until=20.0)
print(out.final)

# says: TraceError: `spring` takes `v`, but a force of @tp.forces may depend only on positions, t and parameters
# says: Write friction with @tp.ode: def spring(x, v, k, gamma): return v, <the force>
