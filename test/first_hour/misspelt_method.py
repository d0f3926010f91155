"""A method of another library, and one that is misspelt."""

import tinyphysics as tp


@tp.hamiltonian
def spring(q, p):
    return p**2 / 2 + q**2 / 2


try:
    spring.compile(dt=0.1, method="velocity_verlet")
except tp.PlanError as error:
    print(error)
spring.compile(dt=0.1, method="yoshida_4")

# prints: there is no method `velocity_verlet`.
# prints: Here it is `leapfrog`. All are listed in docs/methods.md.
# says: PlanError: there is no method `yoshida_4`
# says: Did you mean `yoshida4`
