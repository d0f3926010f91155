"""Which of the runs are in `make quick`, 30 of them, and which in `make test`, 100 with those?

Chosen so that every group and every precision is in both, and every family of methods in the second; cheap ones first.
"""

from __future__ import annotations

# fmt: off
QUICK = {
    "again": "kepler",
    "clocks": "logarithmic",
    "ensembles": "pendulum-17",
    "events": "apsides-taylor",
    "fast": "kepler",
    "frames": "kepler-observed",
    "functions": "trig-float32",
    "goals": "pendulum-step-given",
    "held": "energy",
    "jumps": "oscillator-exact",
    "loops": "fput-float64",
    "maps": "standard",
    "methods": "yoshida4-henon_heiles implicit_midpoint-curved",
    "neighbours": "flat_liquid",
    "noise": "noisy",
    "odes": "dragged-rk4",
    "resume": "pendulum-ensemble",
    "rewind": "henon_heiles-lattice",
    "series": "kepler-loose",
    "solved": "fput-implicit_midpoint",
    "stops": "steep",
    "sums": "paces-inner",
    "trees": "gravity-0.01",
    "turns": "swing-mollified-at-resonance",
    "written": "hoop",
    "zoo": "pendulum-dd kepler-compensated oscillator-mixed henon_heiles-lattice",
    "kernels": "zoo-pendulum loops-fput",
    "defaults": "kepler curved",
}
TEST = {
    "clocks": "pumped",
    "ensembles": "kepler-parameters",
    "events": "turns-dop853",
    "fast": "kepler-float32",
    "functions": "growth-float64 powers-compensated",
    "goals": "kepler-error",
    "held": "energy-and-momentum",
    "jumps": "springs-method",
    "loops": "wave-float32 cluster-float64 ring-compensated pendulums-mixed carried-dd reversed_ends-lattice",
    "maps": "products",
    "methods": "symplectic_euler-pendulum leapfrog_kdk-henon_heiles leapfrog_dkd-pendulum suzuki4-pendulum "
               "blanes_moan6-henon_heiles nystrom6-henon_heiles kahan_li8-pendulum chin4-henon_heiles "
               "takahashi_imada4-henon_heiles force_gradient6-pendulum respa-spring-and-weak respa4-spring-and-weak "
               "strang-carousel strang4-kepler-and-coriolis gauss4-curved stormer_verlet_implicit-curved kick_midpoint-curved "
               "extended_phase_space-curved variational_midpoint-hoop galerkin4-hoop avf-curved gonzalez-curved itoh_abe-curved "
               "rk4-kepler wisdom_holman-gravity saba2-gravity interaction4-swing interaction_mollified-swing "
               "magnus4-moving_trap taylor-pendulum dop853-pendulum radau-pendulum",
    "neighbours": "liquid-float32",
    "noise": "noisy-float32",
    "odes": "dragged-absolute",
    "resume": "kepler-dd noise",
    "series": "witch pleiades",
    "stops": "not-solved",
    "sums": "chain-trap split",
    "turns": "stiff_trap-default",
    "written": "swirl-order-4 scaled relativistic",
    "zoo": "pendulum-float32 kepler-dd toda-float64 fput-lattice galaxy-float64 driven_pendulum-mixed henon-float64 "
           "double_well-compensated",
    "kernels": "zoo-kepler zoo-henon zoo-driven_pendulum pendulum-float32 pendulum-compensated pendulum-lattice method-yoshida4 "
               "method-rk4 curved-implicit_midpoint hoop noisy loops-wave loops-cluster loops-carried neighbours-flat_liquid",
    "defaults": "pendulum oscillator henon swing driven pumped carousel swirl hoop standard lorenz fast-and-slow",
}
# fmt: on
CHOSEN = {
    f"{group}/{name}": tier
    for tier, table in (("test", TEST), ("quick", QUICK))
    for group, names in table.items()
    for name in names.split()
}


def tier_of(group: str, name: str) -> str:
    return CHOSEN.get(f"{group}/{name}", "all")
