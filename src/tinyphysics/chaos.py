"""Is it chaotic?  Lyapunov exponents, indicators to observe in a run, and Poincaré sections."""

from tinyphysics.runtime.measure.indicators import ftle as ftle
from tinyphysics.runtime.measure.indicators import gali as gali
from tinyphysics.runtime.measure.indicators import megno as megno
from tinyphysics.runtime.measure.indicators import sali as sali
from tinyphysics.runtime.measure.lyapunov import Lyapunov as Lyapunov
from tinyphysics.runtime.measure.sections import section as section

__all__ = ["Lyapunov", "ftle", "gali", "megno", "sali", "section"]
