"""`python -m tinyphysics` is `tp`."""

import sys

from tinyphysics.cli import main

if __name__ == "__main__":
    sys.exit(main())
