"""Options that are misspelt, and one that goes to another call."""

import tinyphysics as tp


@tp.hamiltonian
def spring(q, p):
    return p**2 / 2 + q**2 / 2


for wrong in (dict(presicion="float32"), dict(save_every=10), dict(timestep=0.1)):
    try:
        spring.compile(dt=0.1, **wrong)
    except tp.InputError as error:
        print(error)
spring.compile(dt=0.1).evolve(q=1.0, p=0.0, stpes=100)

# prints: Did you mean `precision`?
# prints: Pass it to evolve: evolve(..., save_every=...).
# prints: Pass dt=0.01.
# says: InputError: evolve has no option `stpes`
# says: Did you mean `steps`?
