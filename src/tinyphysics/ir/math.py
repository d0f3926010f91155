"""Python's operators, spelt once for everything that can stand in an expression.

Graph nodes and rule patterns both inherit from Arithmetic, so a pattern looks like what it matches.
"""

from __future__ import annotations

from typing import Any, Self

from tinyphysics.ir.ops import Ops


class Arithmetic:
    __slots__ = ()

    def alu(self, op: Ops, *others: Any) -> Self:
        """op(self, *others), with numbers among the others made constants."""
        raise AssertionError("a leaf class defines alu")

    def lift(self, x: Any) -> Self:
        """x as an operand beside self."""
        raise AssertionError("a leaf class defines lift")

    # fmt: off
    def __add__(self, o: Any) -> Self:       return self.alu(Ops.ADD, o)
    def __radd__(self, o: Any) -> Self:      return self.lift(o).alu(Ops.ADD, self)
    def __sub__(self, o: Any) -> Self:       return self.alu(Ops.SUB, o)
    def __rsub__(self, o: Any) -> Self:      return self.lift(o).alu(Ops.SUB, self)
    def __mul__(self, o: Any) -> Self:       return self.alu(Ops.MUL, o)
    def __rmul__(self, o: Any) -> Self:      return self.lift(o).alu(Ops.MUL, self)
    def __truediv__(self, o: Any) -> Self:   return self.alu(Ops.DIV, o)
    def __rtruediv__(self, o: Any) -> Self:  return self.lift(o).alu(Ops.DIV, self)
    def __pow__(self, o: Any) -> Self:       return self.alu(Ops.POW, o)
    def __rpow__(self, o: Any) -> Self:      return self.lift(o).alu(Ops.POW, self)
    def __neg__(self) -> Self:               return self.alu(Ops.NEG)
    def __pos__(self) -> Self:               return self
    def __abs__(self) -> Self:               return self.alu(Ops.ABS)
    def __lt__(self, o: Any) -> Self:        return self.alu(Ops.LT, o)
    def __le__(self, o: Any) -> Self:        return self.alu(Ops.LE, o)
    def __gt__(self, o: Any) -> Self:        return self.lift(o).alu(Ops.LT, self)
    def __ge__(self, o: Any) -> Self:        return self.lift(o).alu(Ops.LE, self)
    def __and__(self, o: Any) -> Self:       return self.alu(Ops.AND, o)
    def __rand__(self, o: Any) -> Self:      return self.lift(o).alu(Ops.AND, self)
    def __or__(self, o: Any) -> Self:        return self.alu(Ops.OR, o)
    def __ror__(self, o: Any) -> Self:       return self.lift(o).alu(Ops.OR, self)
    def __xor__(self, o: Any) -> Self:       return self.alu(Ops.XOR, o)
    def __lshift__(self, o: Any) -> Self:    return self.alu(Ops.SHL, o)
    def __rshift__(self, o: Any) -> Self:    return self.alu(Ops.SHR, o)
    def __invert__(self) -> Self:            return self.alu(Ops.NOT)

    def sqrt(self) -> Self:    return self.alu(Ops.SQRT)
    def rsqrt(self) -> Self:   return self.alu(Ops.RSQRT)
    def cbrt(self) -> Self:    return self.alu(Ops.CBRT)
    def sin(self) -> Self:     return self.alu(Ops.SIN)
    def cos(self) -> Self:     return self.alu(Ops.COS)
    def tan(self) -> Self:     return self.alu(Ops.TAN)
    def asin(self) -> Self:    return self.alu(Ops.ASIN)
    def acos(self) -> Self:    return self.alu(Ops.ACOS)
    def atan(self) -> Self:    return self.alu(Ops.ATAN)
    def sinh(self) -> Self:    return self.alu(Ops.SINH)
    def cosh(self) -> Self:    return self.alu(Ops.COSH)
    def tanh(self) -> Self:    return self.alu(Ops.TANH)
    def exp(self) -> Self:     return self.alu(Ops.EXP)
    def expm1(self) -> Self:   return self.alu(Ops.EXPM1)
    def log(self) -> Self:     return self.alu(Ops.LOG)
    def log1p(self) -> Self:   return self.alu(Ops.LOG1P)
    def erf(self) -> Self:     return self.alu(Ops.ERF)
    def sign(self) -> Self:    return self.alu(Ops.SIGN)
    def floor(self) -> Self:   return self.alu(Ops.FLOOR)
    def rint(self) -> Self:    return self.alu(Ops.RINT)

    def atan2(self, x: Any) -> Self:            return self.alu(Ops.ATAN2, x)
    def hypot(self, o: Any) -> Self:            return self.alu(Ops.HYPOT, o)
    def turn(self, low: Any) -> Self:           return self.alu(Ops.ANGLE, low)
    def turn_low(self, low: Any) -> Self:       return self.alu(Ops.ANGLE_LOW, low)
    def minimum(self, o: Any) -> Self:          return self.alu(Ops.MIN, o)
    def maximum(self, o: Any) -> Self:          return self.alu(Ops.MAX, o)
    def eq(self, o: Any) -> Self:               return self.alu(Ops.EQ, o)
    def ne(self, o: Any) -> Self:               return self.alu(Ops.NE, o)
    def image(self, b: Any, s: Any) -> Self:    return self.alu(Ops.IMAGE, b, s)
    def fma(self, b: Any, c: Any) -> Self:      return self.alu(Ops.FMA, b, c)
    def where(self, a: Any, b: Any) -> Self:    return self.alu(Ops.WHERE, a, b)
    # fmt: on
