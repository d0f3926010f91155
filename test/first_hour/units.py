"""A start with units from pint: they are not converted, and the error says what to pass."""

import pint
import tinyphysics as tp

unit = pint.UnitRegistry()


@tp.hamiltonian
def falling(q, p, g=9.81):
    return p**2 / 2 + g * q


out = falling.compile(dt=0.01).evolve(q=10.0 * unit.metre, p=0.0, steps=10)
print(out.final)

# says: InputError: `q` is not a number or an array of numbers: it is a quantity in `meter`
# says: Units are not converted here: pass the number in the unit of your system, q=q.m_as("meter").
