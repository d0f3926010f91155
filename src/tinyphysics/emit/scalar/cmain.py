"""A kernel as a complete C program: reads a state, runs it, prints the state and its hash."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tinyphysics.emit.scalar.c import module
from tinyphysics.emit.text.dialects import TYPE
from tinyphysics.ir.dtype import DType, bool_
from tinyphysics.target import VectorShape
from tinyphysics.tpir.kernels.kernel import Kernel
from tinyphysics.tpir.program.isa import Program
from tinyphysics.util import prod

BLAKE2B = r"""
/* blake2b (RFC 7693), unkeyed, 16 bytes out */
static const uint64_t IV[8] = {0x6a09e667f3bcc908u, 0xbb67ae8584caa73bu, 0x3c6ef372fe94f82bu, 0xa54ff53a5f1d36f1u,
  0x510e527fade682d1u, 0x9b05688c2b3e6c1fu, 0x1f83d9abfb41bd6bu, 0x5be0cd19137e2179u};
static const uint8_t SIGMA[12][16] = {
  {0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15}, {14,10,4,8,9,15,13,6,1,12,0,2,11,7,5,3},
  {11,8,12,0,5,2,15,13,10,14,3,6,7,1,9,4}, {7,9,3,1,13,12,11,14,2,6,5,10,4,0,15,8},
  {9,0,5,7,2,4,10,15,14,1,11,12,6,8,3,13}, {2,12,6,10,0,11,8,3,4,13,7,5,15,14,1,9},
  {12,5,1,15,14,13,4,10,0,7,6,3,9,2,8,11}, {13,11,7,14,12,1,3,9,5,0,15,4,8,6,2,10},
  {6,15,14,9,11,3,0,8,12,2,13,7,1,4,10,5}, {10,2,8,4,7,6,1,5,15,11,9,14,3,12,13,0},
  {0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15}, {14,10,4,8,9,15,13,6,1,12,0,2,11,7,5,3}};
typedef struct { uint64_t h[8], t; uint8_t b[128]; size_t n; } hasher;
static uint64_t rotr(uint64_t x, int k) { return (x >> k) | (x << (64 - k)); }
static void mix(uint64_t *v, int a, int b, int c, int d, uint64_t x, uint64_t y) {
  v[a] += v[b] + x; v[d] = rotr(v[d] ^ v[a], 32); v[c] += v[d]; v[b] = rotr(v[b] ^ v[c], 24);
  v[a] += v[b] + y; v[d] = rotr(v[d] ^ v[a], 16); v[c] += v[d]; v[b] = rotr(v[b] ^ v[c], 63);
}
static void compress(hasher *s, int last) {
  uint64_t v[16], m[16];
  for (int i = 0; i < 8; i++) { v[i] = s->h[i]; v[i + 8] = IV[i]; }
  v[12] ^= s->t; if (last) v[14] = ~v[14];
  memcpy(m, s->b, 128);
  for (int r = 0; r < 12; r++) {
    const uint8_t *g = SIGMA[r];
    mix(v, 0, 4, 8, 12, m[g[0]], m[g[1]]); mix(v, 1, 5, 9, 13, m[g[2]], m[g[3]]);
    mix(v, 2, 6, 10, 14, m[g[4]], m[g[5]]); mix(v, 3, 7, 11, 15, m[g[6]], m[g[7]]);
    mix(v, 0, 5, 10, 15, m[g[8]], m[g[9]]); mix(v, 1, 6, 11, 12, m[g[10]], m[g[11]]);
    mix(v, 2, 7, 8, 13, m[g[12]], m[g[13]]); mix(v, 3, 4, 9, 14, m[g[14]], m[g[15]]);
  }
  for (int i = 0; i < 8; i++) s->h[i] ^= v[i] ^ v[i + 8];
}
static void begin_hash(hasher *s) { memset(s, 0, sizeof *s); memcpy(s->h, IV, 64); s->h[0] ^= 0x01010010u; }
static void add_bytes(hasher *s, const void *data, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (s->n == 128) { s->t += 128; compress(s, 0); s->n = 0; }
    s->b[s->n++] = ((const uint8_t *)data)[i];
  }
}
static void end_hash(hasher *s, uint8_t *out) {
  s->t += s->n; memset(s->b + s->n, 0, 128 - s->n); compress(s, 1); memcpy(out, s->h, 16);
}
static void add_array(hasher *outer, const char *header, const void *data, size_t bytes) {
  add_bytes(outer, header, strlen(header));
  for (size_t at = 0; at < bytes; at += 65536) {
    hasher leaf; uint8_t digest[16]; size_t n = bytes - at < 65536 ? bytes - at : 65536;
    begin_hash(&leaf); add_bytes(&leaf, (const uint8_t *)data + at, n); end_hash(&leaf, digest);
    add_bytes(outer, digest, 16);
  }
}
"""


MEMORY = {"bool": "uint8_t"}  # what is another type in expressions


def header(dtype: DType, shape: tuple[int, ...]) -> str:
    """What stands before an array in a hash: NumPy's name of its type, and its shape."""
    return f"{'<' if dtype.bits > 8 else '|'}{dtype.kind}{max(dtype.bits // 8, 1)}{shape}"


def low_words(program: Program) -> dict[int, int]:
    """Which numbers of the state are error words, and of which numbers."""
    out: dict[int, int] = {}
    at = 0
    for s in program.states:
        size = prod(s.type.shape)
        if s.low_of is not None:
            out |= {at + j: at + j - size for j in range(size)}
        at += size
    return out


@dataclass(frozen=True)
class Host:
    """What a complete program says differently for a device: how it is compiled, where memory is, how a section is called."""

    command: str = "cc -O2 -march=native -ffp-contract=off -fwrapv -fno-tree-slp-vectorize -fno-tree-scev-cprop this.c -lm"
    module: Callable[..., str] = module
    shared: str = ""  # before memory that both sides see; empty: it is local
    call: str = "{name}("
    wait: str = ""
    entry: str = "int main(int argc, char **argv)"


HERE = Host()


def complete_program(k: Kernel, program: Program, host: Host = HERE) -> str:
    """`./a.out STEPS DT T0 parameters... state...` runs one member and prints its state and hash."""
    enter, leave = (n if k.has(n) else "" for n in ("enter", "leave"))
    names = [n for n in ("init", enter, "step", leave, "final") if n]
    varying = (False,) * len(k.params)
    one = VectorShape(1, 1)
    careful = host.module([(k.section(n, careful=True), one) for n in names], k.params, varying)
    outputs = sum(prod(shape) for _, shape in k.outputs.values())
    T = TYPE[k.carried[0].dtype.name] if k.carried else "double"
    order = [str(p.arg)[1:] for p in k.params]
    given = [n for n in order if n not in ("dt", "t0")]
    inputs = [str(v.arg)[1:] for v in k.inputs]
    words = low_words(program)
    read = [
        j for j in range(len(inputs)) if j not in words
    ]  # what is given; an error word is the rest of its number
    fill = []
    for slot, name in enumerate(order):
        source = {"dt": "dt", "t0": "t0"}.get(name) or f"atof(argv[{4 + given.index(name)}])"
        fill.append(f"  uniform[{slot}] = {source};  /* {name} */")
    first = 4 + len(given)
    places = {j: f"argv[{first + n}]" for n, j in enumerate(read)}
    for j, name in enumerate(inputs):
        number = (
            "atof" if T in ("double", "float") else "atoll"
        )  # a state of whole numbers is given in its units
        value = f"{number}({places[j]})" if j in places else f"atof({places[words[j]]}) - in[{words[j]}]"
        if k.kinds and k.kinds[j].is_float:  # beside whole numbers it stands by its bits
            value = f"f64_to_i64(atof({places[j]}))"
        fill.append(f"  in[{j}] = {value};  /* {name} */")
    show, at = [], 0
    for name, (dtype, shape) in k.outputs.items():
        how, kind = ("%.17g", "double") if dtype.is_float else ("%lld", "long long")
        own, first_one = "out", at
        if k.kinds:
            own, first_one, t = f"own{at}", 0, MEMORY.get(dtype.name, TYPE[dtype.name])
            read_back = (
                "i64_to_f64(out[{}])" if dtype.is_float else "out[{}] != 0" if dtype is bool_ else "out[{}]"
            )
            values = ", ".join(read_back.format(at + j) for j in range(prod(shape)))
            show.append(f"  const {t} {own}[] = {{{values}}};")
        else:
            t = T
        show.append(
            f'  add_array(&h, "{header(dtype, shape)}", {own} + {first_one}, {prod(shape)} * sizeof({t}));'
        )
        for j in range(prod(shape)):
            show.append(
                f'  printf("{name}{f"[{j}]" if shape else ""} = {how}\\n", ({kind}){own}[{first_one + j}]);'
            )
        at += prod(shape)

    def go(name: str, arrays: str, first: str = "0", steps: str = "1") -> str:
        return (
            f"    {host.call.format(name=name)}{arrays}, uniform, 0, flags, 0, 0, 1, 1, {first}, {steps}, 1);"
        )

    calls = [
        go("init", "in, state"),
        *([go(enter, "state, state")] if enter else []),
        go("step", "state, state", "0", "steps"),
        *([go(leave, "state, state")] if leave else []),
        go("final", "state, out", "steps"),
    ]
    memory = [
        f"double uniform[{max(len(order), 1)}];",
        f"{T} in[{max(len(inputs), 1)}], state[{max(len(k.carried), 1)}], out[{max(outputs, 1)}];",
        "signed char flags[1] = {0};",
    ]
    above = "".join(f"{host.shared} {line}\n" for line in memory) if host.shared else ""
    local = "" if host.shared else "".join(f"  {line}\n" for line in memory)
    usage = " ".join(["STEPS", "DT", "T0", *given, *(inputs[j] for j in read)])
    return f"""/* {program.name}: {host.command}
   usage: {usage} */
#include <stdio.h>
#include <stdlib.h>
{careful}{BLAKE2B}{above}
{host.entry} {{
  if (argc != {first + len(read)}) {{ fprintf(stderr, "usage: {usage}\\n"); return 2; }}
  long long steps = atoll(argv[1]);
  double dt = atof(argv[2]), t0 = atof(argv[3]);
{local}  (void)dt; (void)t0;
{chr(10).join(fill)}
  memcpy(out, in, sizeof out);  /* no step returns the input itself */
  if (steps > 0) {{
{chr(10).join(calls)}{host.wait}
  }}
  hasher h; uint8_t digest[16];
  begin_hash(&h);
{chr(10).join(show)}
  end_hash(&h, digest);
  for (int i = 0; i < 16; i++) printf("%02x", digest[i]);
  printf("\\n");
  return 0;
}}
"""
