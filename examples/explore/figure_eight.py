"""Can three equal stars chase each other round one curve?  Moore found it in 1993; make one heavier and it ends."""

import tinyphysics as tp


@tp.hamiltonian
def figure_eight(q: tp.Array[3, 2], p: tp.Array[3, 2], m: float = 1.0):
    kinetic = (p[0] @ p[0]) / (2 * m) + (p[1] @ p[1] + p[2] @ p[2]) / 2
    near = -m / tp.norm(q[0] - q[1]) - m / tp.norm(q[0] - q[2])
    far = -1 / tp.norm(q[1] - q[2])
    return kinetic + near + far


start = dict(
    q=[[0.97000436, -0.24308753], [-0.97000436, 0.24308753], [0.0, 0.0]],
    p=[[0.466203685, 0.43236573], [0.466203685, 0.43236573], [-0.93240737, -0.86473146]],
)
dt, steps = 0.01, 640
