"""The programs are run by test_first_hour.py: they are not modules of tests, and not imported."""

from pathlib import Path

collect_ignore = [p.name for p in Path(__file__).parent.glob("*.py") if not p.name.startswith("test_")] + [
    "stand_ins"
]
