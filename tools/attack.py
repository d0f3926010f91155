"""An attack on the compiler: random programs, each verdict compared with what is measured apart.

    python tools/attack.py --cases 50                          # a first look
    python tools/attack.py --cases 20000 --jobs 2 --resume runs/attack.jsonl
    python tools/attack.py --seed 1234                         # one case, with all checks and its program
    python tools/attack.py --minimise 1234                     # the shortest program with the same finding

What is checked, and what the checks rest on, is in docs/attack.md.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

# before NumPy is there: every child would have as many threads as the machine has processors
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
sys.path.insert(0, str(Path(__file__).parent))

from attack.command import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
