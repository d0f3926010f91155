"""Van der Pol's oscillator where it is stiff: an accuracy is asked for, and radau's tolerance follows."""

import tinyphysics as tp


@tp.ode
def van_der_pol(x, v, mu=100.0):
    return v, mu * (1 - x**2) * v - x


out = van_der_pol.compile(method="radau", error=1e-3).evolve(x=2.0, v=0.0, until=50.0)
print("the goal was met:", out.metrics["goals"]["met"])
print(f"x = {out.final.x:.2f}")

# prints: the goal was met: True
# prints: x = 1.60
