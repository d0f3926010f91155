"""Systems of few numbers, as a user writes them: energies, forces, maps, equations, Lagrangians."""

from __future__ import annotations

import tinyphysics as tp


# --- energies that split ------------------------------------------------------------------------------
@tp.hamiltonian
def swing(q, p, w: float = 3.0):
    return p**2 / 2 + w**2 * q**2 / 2 + (1 - tp.cos(q))


@tp.hamiltonian
def anharmonic(q: tp.Vec[2], p: tp.Vec[2], k: float = 5.0):
    return p @ p / 2 + k * q[0] ** 2 / 2 + 2 * q[1] ** 2 + q[0] * q[1] / 3 + (q[0] - q[1]) ** 4 / 4


@tp.hamiltonian
def trig(q: tp.Vec[2], p: tp.Vec[2]):
    return tp.sqrt(1 + p @ p) + tp.sin(q[0]) * tp.cos(3 * q[1]) + tp.arctan(q[0]) + tp.tan(q[1] / 4)


@tp.hamiltonian
def growth(q: tp.Vec[2], p: tp.Vec[2], a: float = 0.3):
    x, y = q
    V = a * tp.exp(-x * x) + tp.log(2 + y * y) + tp.tanh(x) + tp.expm1(y / 9) + tp.log1p(x * x)
    return tp.cosh(p[0]) + p[1] ** 2 / 2 + V + tp.sinh(x / 5) + tp.erf(y)


@tp.hamiltonian
def powers(q: tp.Vec[2], p: tp.Vec[2]):
    x, y = q
    V = (1 + x * x) ** 1.7 + tp.cbrt(2 + y * y) + tp.hypot(x, 1 + y) + tp.arctan2(y, 2 + x * x)
    return p @ p / 2 + V + tp.arcsin(x / 9) + tp.arccos(y / 9) + tp.where(x < y, x * x, y * y)


@tp.hamiltonian
def torture(q, p):
    return p**2 / 2 + tp.sin(1e6 * q) + tp.cos(1e12 * q**3) + 1 / (2 + q * q)


@tp.hamiltonian
def driven(q, p, t, m: float = 2.0):
    return p**2 / (2 * m) + tp.cos(q) * (1 + 0.1 * tp.sin(t))


@tp.hamiltonian
def pumped(q, p, t):
    """T and V both depend on time: three parts."""
    return p**2 / (2 + tp.cos(t)) + q**4 / 4 - q * tp.sin(2 * t)


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


@tp.hamiltonian
def kepler_mass(q: tp.Vec[2], p: tp.Vec[2], m: float = 1.0):
    return p @ p / (2 * m) - 1 / tp.norm(q)


@tp.hamiltonian
def steep(q, p):
    return p**2 / 2 - q**4 / 4


# --- energies that do not split ---------------------------------------------------------------------
@tp.hamiltonian
def curved(q, p):
    return (1 + q**2) * p**2 / 2 + q**4


@tp.hamiltonian
def bead(q, p):
    return p**2 / (2 * (1 + 4 * q**2)) + q**2


@tp.hamiltonian
def magnetic(q: tp.Vec[2], p: tp.Vec[2], B: float = 0.7):
    A = 0.5 * B * (1 + 0.2 * (q @ q))
    return ((p[0] + A * q[1]) ** 2 + (p[1] - A * q[0]) ** 2) / 2 + q @ q / 2


@tp.hamiltonian
def coriolis(q: tp.Vec[2], p: tp.Vec[2], w: float = 0.3):
    return -w * (q[0] * p[1] - q[1] * p[0])


# --- energies that are solved ------------------------------------------------------------------------
@tp.hamiltonian
def carousel(q: tp.Vec[2], p: tp.Vec[2], w: float = 0.5):
    return p @ p / 2 + q @ q / 2 - w * (q[0] * p[1] - q[1] * p[0])


@tp.hamiltonian
def stiff_trap(q, p, w: float = 100.0):
    return p**2 / 2 + w**2 * q**2 / 2 + q**4 / 4


@tp.hamiltonian
def moving_trap(q, p, t, w: float = 3.0):
    return p * p / 2 + w**2 * (1 + 0.2 * tp.cos(0.5 * t)) * q * q / 2


@tp.hamiltonian
def moving_pair(q: tp.Vec[2], p: tp.Vec[2], t):
    return p @ p / 2 + (2 + tp.sin(t)) * q[0] ** 2 / 2 + q[1] ** 2 + q[0] * q[1] * tp.cos(t) / 2


@tp.hamiltonian
def springs(q: tp.Vec[4], p: tp.Vec[4], k: float = 1.5):
    stretch = tp.diff(q)
    return p @ p / 2 + k * (stretch @ stretch) / 2


# --- other ways to write a system ---------------------------------------------------------------------
@tp.forces
def swirl(q: tp.Vec[2], mass: float = 2.0):
    return tp.stack([-q[0] - 0.1 * q[1], -q[1] + 0.1 * q[0]])


@tp.forces
def gravity_force(q: tp.Vec[2], t):
    return -q / tp.norm(q) ** 3 * (1 + 0.1 * tp.sin(t))


@tp.lagrangian
def double_pendulum(q: tp.Vec[2], v: tp.Vec[2], g: float = 9.8125):
    a, b = q
    return v[0] ** 2 + v[1] ** 2 / 2 + v[0] * v[1] * tp.cos(a - b) + 2 * g * tp.cos(a) + g * tp.cos(b)


@tp.lagrangian
def hoop(q, v, w: float = 2.0):
    return (v**2 + w**2 * tp.sin(q) ** 2) / 2 + tp.cos(q)


@tp.map
def standard(x, y, k: float = 0.96875):
    new = y + k * tp.sin(x)
    return x + new, new


@tp.map
def products(x, y):
    f = x * y
    return 3 * tp.sin(f + x), 2 * tp.sin(f - y)


@tp.map
def noisy(x, y):
    return x / 2 + tp.random.normal(), y + tp.random.uniform(stream=3) * tp.random.integers(1, 5)


@tp.ode
def lorenz(x, y, z, sigma: float = 10.0, rho: float = 28.0, beta: float = 8 / 3):
    return sigma * (y - x), x * (rho - z) - y, x * y - beta * z


@tp.ode
def witch(x, t):
    return -2 * t * x * x


@tp.ode
def dragged(x, v, drag: float = 0.1):
    return v, -x - drag * abs(v) * v


@tp.ode
def van_der_pol(x, v, eps: float = 0.015625):
    return v, ((1 - x * x) * v - x) / eps


@tp.ode
def robertson(a, b, c):
    slow, middle, fast = 0.04 * a, 1e4 * b * c, 3e7 * b * b
    return -slow + middle, slow - middle - fast, fast


@tp.ode
def arenstorf(x: tp.Vec[2], v: tp.Vec[2], mu: float = 0.012277471):
    a, b = x
    earth, moon = ((a + mu) ** 2 + b * b) ** 1.5, ((a - (1 - mu)) ** 2 + b * b) ** 1.5
    return v, tp.stack(
        [
            a + 2 * v[1] - (1 - mu) * (a + mu) / earth - mu * (a - (1 - mu)) / moon,
            b - 2 * v[0] - (1 - mu) * b / earth - mu * b / moon,
        ]
    )


@tp.ode
def forced(x, t):
    return -1e3 * (x - tp.cos(t))


class Cluster(tp.PhysicsSystem):
    """A class whose attributes are parameters."""

    def __init__(self):
        self.n, self.G, self.softening = 3, 1.0, 0.0625
        self.m = [1.0, 0.5, 0.25]

    def energy(self, q: tp.Array[3, 2], p: tp.Array[3, 2]):
        kinetic = sum(p[i] @ p[i] / (2 * self.m[i]) for i in range(self.n))
        potential = 0.0
        for i in range(self.n):
            for j in range(i):
                r = q[i] - q[j]
                potential -= self.G * self.m[i] * self.m[j] / tp.sqrt(r @ r + self.softening**2)
        return kinetic + potential


@tp.hamiltonian
def two_masses(q: tp.Vec[2], p: tp.Vec[2], k: float = 0.5, m: float = 2.0):
    return p[0] ** 2 / 2 + p[1] ** 2 / (2 * m) + k * (q[1] - q[0]) ** 2 / 2 + q[0] / 8


@tp.ode
def heat(u: tp.Vec["n"], d: float = 1.0):
    return d * (tp.roll(u, 1) + tp.roll(u, -1) - 2 * u)


@tp.hamiltonian(bracket="so3")
def top(L: tp.Vec[3], I: tp.Vec[3]):  # noqa: E741
    return (L**2 / I).sum() / 2


def field(q):
    return tp.stack([0.0 * q[0], 0.0 * q[0], 1 + q[0] / 2])


@tp.hamiltonian(bracket=tp.magnetic(field))
def charge(q: tp.Vec[3], p: tp.Vec[3]):
    return p @ p / 2 + q @ q / 8


@tp.hamiltonian(bracket="contact")
def damped(q, p, s, gamma: float = 0.125):
    return p**2 / 2 - tp.cos(q) + gamma * s


@tp.hamiltonian(bracket=lambda z: [[0.0, z[0] * z[1]], [-z[0] * z[1], 0.0]])
def hares(z: tp.Vec[2]):
    return z[0] - tp.log(z[0]) + z[1] - tp.log(z[1])


@tp.ode
def korteweg_de_vries(u: tp.Vec["n"], L: float = 8.0):
    return -3 * tp.dx(tp.dealias(u) ** 2, length=L) - tp.dx(u, 3, length=L)


@tp.hamiltonian
def condensate(psi: tp.Complex["n"], L: float = 8.0, g: float = 1.0):
    return (abs(tp.dx(psi, length=L)) ** 2 + g / 2 * abs(psi) ** 4).sum()


@tp.hamiltonian
def weight(q: tp.Vec[2], p: tp.Vec[2], g: float = 1.0):
    return p @ p / 2 + g * q[1]


@tp.constraint
def rod(q: tp.Vec[2], length: float = 1.0):
    return q @ q - length**2


@tp.hamiltonian
def shaken_top(R: tp.Rotor, L: tp.Vec[3], t):
    turns = L[0] ** 2 / 2 + L[1] ** 2 / 4 + L[2] ** 2 / 6
    return turns + (1 + 0.5 * tp.sin(2 * t)) * tp.rotate(R, [0.0, 0.0, 1.0])[2]


@tp.hamiltonian
def heavy_top(R: tp.Rotor, L: tp.Vec[3]):
    turns = L[0] ** 2 / 2 + L[1] ** 2 / 4 + L[2] ** 2 / 6
    return turns + tp.rotate(R, [0.0, 0.0, 1.0])[2]


@tp.hamiltonian
def drifting(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2
