"""Fourier transforms of symbols, under the names of np.fft, and derivatives of periodic fields.

>>> import numpy as np, tinyphysics as tp
>>> tp.fft.fftfreq(4).tolist()
[0.0, 0.25, -0.5, -0.25]
"""

from numpy.fft import fftfreq as fftfreq
from numpy.fft import rfftfreq as rfftfreq

from tinyphysics.front.cosines import dct as dct
from tinyphysics.front.cosines import dst as dst
from tinyphysics.front.cosines import idct as idct
from tinyphysics.front.cosines import idst as idst
from tinyphysics.front.fourier import dealias as dealias
from tinyphysics.front.fourier import dx as dx
from tinyphysics.front.fourier import fft as fft
from tinyphysics.front.fourier import fft2 as fft2
from tinyphysics.front.fourier import fftn as fftn
from tinyphysics.front.fourier import fftshift as fftshift
from tinyphysics.front.fourier import ifft as ifft
from tinyphysics.front.fourier import ifft2 as ifft2
from tinyphysics.front.fourier import ifftn as ifftn
from tinyphysics.front.fourier import ifftshift as ifftshift
from tinyphysics.front.fourier import irfft as irfft
from tinyphysics.front.fourier import irfft2 as irfft2
from tinyphysics.front.fourier import irfftn as irfftn
from tinyphysics.front.fourier import rfft as rfft
from tinyphysics.front.fourier import rfft2 as rfft2
from tinyphysics.front.fourier import rfftn as rfftn
