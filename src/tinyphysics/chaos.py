"""Is it chaotic?  Lyapunov exponents, indicators to observe in a run, and Poincaré sections."""

from typing import NoReturn

from tinyphysics.runtime.measure.indicators import ftle as ftle
from tinyphysics.runtime.measure.indicators import gali as gali
from tinyphysics.runtime.measure.indicators import megno as megno
from tinyphysics.runtime.measure.indicators import sali as sali
from tinyphysics.runtime.measure.lyapunov import Lyapunov as Lyapunov
from tinyphysics.runtime.measure.sections import section as section

__all__ = ["Lyapunov", "ftle", "gali", "megno", "sali", "section"]


def __getattr__(name: str) -> NoReturn:
    if name in ("lyapunov", "lyapunov_exponent", "lyapunov_exponents", "spectrum"):
        raise AttributeError(
            f"tinyphysics.chaos has no `{name}`: write sim.lyapunov(q=..., p=..., until=1e4)"
        )
    raise AttributeError(f"tinyphysics.chaos has no `{name}`: it has {', '.join(__all__)}")
