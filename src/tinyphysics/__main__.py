"""The command `tp`, and `python -m tinyphysics`."""

import sys

from tinyphysics.explore_command import served


def main() -> int:
    code = served(sys.argv[1:])  # a server starts without the compiler
    if code is not None:
        return code
    from tinyphysics.cli import main as whole

    return whole()


if __name__ == "__main__":
    sys.exit(main())
