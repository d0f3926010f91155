"""A complete C program with its start in it: it runs without arguments, and takes a number of steps instead of its own."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tinyphysics.emit.modules.cloops import LoopHost
from tinyphysics.emit.scalar.cmain import Host

ENTRY = "static int run_given(int argc, char **argv)"
TAKE = """
static size_t taken = 0;
extern const unsigned char given_bytes[];
extern const size_t given_size;
static int take(void *x, size_t n) {
  if (taken + n > given_size) return 1;
  memcpy(x, given_bytes + taken, n); taken += n;
  return 0;
}
"""
BAKED = Host(entry=ENTRY)
BAKED_LOOPS = LoopHost(
    entry=ENTRY,
    read="take(&x, sizeof x)",
    above=tuple(TAKE.replace("{", "{{").replace("}", "}}").splitlines()),
)
A_LINE = 16  # bytes of data


def baked(program: str, name: str, arguments: Sequence[str], data: bytes | None = None) -> str:
    """The program, its data, and a main that hands it its arguments: steps, dt, t0, parameters and states."""
    words = ", ".join(json.dumps(x) for x in [name, *arguments])
    lines = []
    if data is not None:
        rows = [", ".join(map(str, data[k : k + A_LINE])) for k in range(0, len(data), A_LINE)]
        lines = [
            f"const unsigned char given_bytes[] = {{{','.join(rows) or '0'}}};",
            f"const size_t given_size = {len(data)};",
        ]
    return "\n".join(
        [
            program,
            *lines,
            "int main(int argc, char **argv) {",
            f"  static char *given[] = {{{words}}};",
            f'  if (argc > 2) {{ fprintf(stderr, "usage: {name} [STEPS]\\n"); return 2; }}',
            "  if (argc == 2) given[1] = argv[1];",
            f"  return run_given({len(arguments) + 1}, given);",
            "}",
            "",
        ]
    )
