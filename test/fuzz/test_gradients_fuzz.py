"""Are gradients of random systems by random methods those of the steps that run?  The attack's own differences decide.

Differences are taken in double-double where the method has it; where it chooses its own steps, at those that ran.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"
sys.path.insert(0, str(TOOLS))

from attack.findings import Tally  # noqa: E402
from attack.one import attacked  # noqa: E402
from attack.programs import case_of  # noqa: E402

pytestmark = pytest.mark.requirement("S2-40")
ONLY = frozenset({"slopes"})


@pytest.mark.parametrize("block", range(5))
def test_fifty_random_systems_have_the_gradients_of_their_steps(block):
    total = Tally()
    for seed in range(9000 + 10 * block, 9010 + 10 * block):
        t = attacked(case_of(seed), ONLY, 60.0)
        assert not t.findings, t.findings
        total.shares.update(t.shares)
    assert total.shares["slopes"] >= 3  # the others are refused, by name


@pytest.mark.all
def test_five_hundred_random_systems_have_the_gradients_of_their_steps():
    done = subprocess.run(
        [sys.executable, str(TOOLS / "attack.py"), "--cases", "850", "--seed", "6000", "--only", "slopes"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    (judged,) = [line.split()[-1] for line in done.stdout.splitlines() if line.startswith("of these with:")]
    assert int(judged) >= 500
