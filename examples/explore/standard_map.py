"""When does a kicked rotor lose its last barrier?  At kick = 0.9716; drag it across and watch p wander."""

import tinyphysics as tp


@tp.map
def standard_map(q, p, kick: float = 0.9):
    p_next = p + kick * tp.sin(q)
    return q + p_next, p_next


start = dict(q=2.0, p=1.3)
steps = 600
