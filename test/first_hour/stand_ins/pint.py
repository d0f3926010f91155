"""What a quantity of pint looks like from outside, for machines that do not have it."""

from __future__ import annotations


class Quantity:
    def __init__(self, magnitude: float, units: str) -> None:
        self.magnitude, self.units = magnitude, units

    def __rmul__(self, number: float) -> Quantity:
        return Quantity(number * self.magnitude, self.units)

    def __array__(self, *_: object, **__: object) -> object:
        import numpy as np

        return np.asarray(self.magnitude)

    def m_as(self, unit: str) -> float:
        return self.magnitude


class UnitRegistry:
    metre = Quantity(1.0, "meter")
