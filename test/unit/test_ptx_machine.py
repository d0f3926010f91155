"""Does the machine of the tests run PTX as a GPU does?  Instructions against numbers, one kernel each, written by hand."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import numpy as np
import pytest
from ptx_machine import BadPtx, Fault, Launch, Memory, Race, Unknown, load, parsed, run

from tinyphysics.ir.value import fma_exact

HEAD = ".version 7.8\n.target sm_90\n.address_size 64\n"
RNG = np.random.default_rng(3)
INF, NAN = math.inf, math.nan


def kernel(body, before="", registers=""):
    """A kernel of two arrays of words of 64 bits: %a is this thread's of the first, %i its number; %o is stored."""
    return f"""{HEAD}{before}
.visible .entry k(.param .u64 source, .param .u64 out)
{{
	.reg .pred %p<9>;
	.reg .b16 %h<9>;
	.reg .b32 %i, %w<9>;
	.reg .b64 %s, %t, %n, %a, %o, %x<30>;
	{registers}
	ld.param.u64 %s, [source];
	ld.param.u64 %t, [out];
	mov.u32 %i, %tid.x;
	mul.wide.u32 %n, %i, 8;
	add.s64 %s, %s, %n;
	add.s64 %t, %t, %n;
	ld.global.b64 %a, [%s];
	{body}
	st.global.b64 [%t], %o;
	ret;
}}
"""


def words(*numbers):
    return (
        np.array(
            [n if isinstance(n, int) else struct.unpack("<q", struct.pack("<d", n))[0] for n in numbers]
        ).astype(np.int64)
        if all(-(2**63) <= n < 2**63 for n in numbers if isinstance(n, int))
        else np.array([n % 2**64 for n in numbers], np.uint64).view(np.int64)
    )


def of(body, *numbers, **how):
    """What a body makes of numbers, as integers of 64 bits."""
    source = words(*numbers)
    out = np.zeros(len(source), np.int64)
    run(kernel(body, **how), "k", [source, out], threads=len(source))
    return [int(x) for x in out]


def floats(body, *numbers, **how):
    return np.array(of(body, *[float(x) for x in numbers], **how), np.int64).view(np.float64).tolist()


def bits(x):
    return int(np.float64(x).view(np.int64))


# --- numbers ----------------------------------------------------------------------------------------------
# fmt: off
FLOATS = [
    ("add.rn.f64 %o, %a, 0d3FF0000000000000;",   lambda x: x + 1.0),
    ("sub.rn.f64 %o, 0d3FB999999999999A, %a;",   lambda x: 0.1 - x),
    ("mul.rn.f64 %o, %a, %a;",                   lambda x: x * x),
    ("div.rn.f64 %o, 0d3FF0000000000000, %a;",   lambda x: 1.0 / x if x else math.copysign(INF, x)),
    ("rcp.rn.f64 %o, %a;",                       lambda x: 1.0 / x if x else math.copysign(INF, x)),
    ("fma.rn.f64 %o, %a, %a, 0dBFF0000000000000;", lambda x: fma_exact(x, x, -1.0)),
    ("neg.f64 %o, %a;",                          lambda x: -x),
    ("abs.f64 %o, %a;",                          abs),
    ("max.f64 %o, %a, 0d3FF0000000000000;",      lambda x: max(x, 1.0)),
    ("min.f64 %o, 0d3FF0000000000000, %a;",      lambda x: min(x, 1.0)),
    ("cvt.rni.f64.f64 %o, %a;",                  lambda x: math.copysign(round(x), x) if abs(x) < 2**60 else x),
    ("cvt.rmi.f64.f64 %o, %a;",                  lambda x: float(math.floor(x)) if abs(x) < 2**60 else x),
    ("cvt.rn.f32.f64 %w1, %a; cvt.f64.f32 %o, %w1;", lambda x: float(np.float32(x))),
    ("copysign.f64 %o, %a, 0d4008000000000000;", lambda x: math.copysign(3.0, x)),
]
SAMPLE = [0.5, -0.75, 1.0, -1.5, 2.5, 3.5, 1e-300, -1e300, 5e-324, 0.1, 123456.789, -7.25e-10]
# fmt: on


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("body, meaning", FLOATS, ids=[b.split()[0] for b, _ in FLOATS])
def test_an_operation_on_floats_has_the_bits_of_its_definition(body, meaning):
    assert [bits(x) for x in floats(body, *SAMPLE)] == [bits(meaning(x)) for x in SAMPLE]


def test_fma_rounds_once_for_every_kind_of_number():
    a = np.concatenate(
        [
            RNG.normal(size=300),
            RNG.normal(size=60) * 2.0**-530,
            [0.0, -0.0, INF, 1e200, -1e200, 5e-324, 1 + 2**-52],
        ]
    )
    exact = [fma_exact(x, x, -1.25) for x in a.tolist()]
    got = floats("fma.rn.f64 %o, %a, %a, 0dBFF4000000000000;", *a)
    assert [bits(x) for x in got] == [bits(x) for x in exact]
    zero = floats("fma.rn.f64 %o, %a, %a, 0d8000000000000000;", 0.0, 2.0**-600)
    assert [bits(x) for x in zero] == [0, 0], "0 - 0 is +0, and what underflows has the sign of the product"
    assert floats("fma.rn.f64 %o, %a, 0d7FE0000000000000, 0dFFF0000000000000;", 4.0) == [-INF], (
        "no overflow on the way"
    )


def test_fma_of_float32_is_rounded_once():
    """Through a float64 it would be rounded twice: 2**-77 is lost there, and a tie goes to even."""
    a, b, c = np.float32(1 + 2**-12), np.float32(1 + 2**-12), np.float32(2**-77)
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    down, up = np.float32(1 + 2**-11), np.nextafter(np.float32(1 + 2**-11), np.float32(2))
    assert exact - Fraction(float(down)) > Fraction(float(up)) - exact, "just above the tie"
    body = f"fma.rn.f32 %w1, 0f{a.view(np.uint32):08X}, 0f{b.view(np.uint32):08X}, 0f{c.view(np.uint32):08X}; cvt.u64.u32 %o, %w1;"
    assert of(body, 0) == [int(up.view(np.uint32))]


def test_float32_is_not_float64_rounded_at_the_end():
    body = "cvt.rn.f32.f64 %w1, %a; add.rn.f32 %w1, %w1, 0f3F800000; add.rn.f32 %w1, %w1, 0fBF800000; cvt.f64.f32 %o, %w1;"
    x = 1e-3
    assert (
        floats(body, x)
        == [float(np.float32(np.float32(x) + np.float32(1)) - np.float32(1))]
        != [float(np.float32(x))]
    )


def test_what_is_no_number_has_one_pattern():
    assert of("sub.rn.f64 %o, %a, %a;", INF) == [0x7FFFFFFFFFFFFFFF]
    assert of("sqrt.rn.f64 %o, %a;", -1.0) == [0x7FFFFFFFFFFFFFFF]
    assert of("fma.rn.f64 %o, %a, 0d0000000000000000, %a;", INF) == [0x7FFFFFFFFFFFFFFF]


def test_a_number_wins_over_none_in_min_and_max_and_zeros_have_an_order():
    nan = int(np.float64(NAN).view(np.int64))
    assert of("max.f64 %o, %a, 0d3FF0000000000000;", nan) == [bits(1.0)]
    assert of("min.f64 %o, 0d3FF0000000000000, %a;", nan) == [bits(1.0)]
    assert of("max.f64 %o, %a, 0d8000000000000000;", 0.0) == [0]
    assert of("min.f64 %o, 0d0000000000000000, %a;", -0.0) == [bits(-0.0)]


M = 2**64
# fmt: off
INTEGERS = [
    ("add.s64 %o, %a, 1;",                                 lambda x: x + 1),
    ("sub.s64 %o, 0, %a;",                                 lambda x: -x),
    ("mul.lo.s64 %o, %a, %a;",                             lambda x: x * x),
    ("mad.lo.s64 %o, %a, 3, %a;",                          lambda x: 4 * x),
    ("mul.hi.u64 %o, %a, %a;",                             lambda x: (x % M) ** 2 >> 64),
    ("mul.hi.s64 %o, %a, 1000000007;",                     lambda x: x * 1000000007 >> 64),
    ("cvt.u32.u64 %w1, %a; mul.wide.s32 %o, %w1, -3;",     lambda x: low(x, 32) * -3),
    ("cvt.u32.u64 %w1, %a; mul.hi.u32 %w1, %w1, 3; cvt.u64.u32 %o, %w1;", lambda x: (x % 2**32) * 3 >> 32),
    ("div.s64 %o, %a, 7;",                                 lambda x: int(Fraction(x, 7))),
    ("rem.s64 %o, %a, -7;",                                lambda x: x - int(Fraction(x, -7)) * -7),
    ("div.u64 %o, %a, 7;",                                 lambda x: x % M // 7),
    ("and.b64 %o, %a, 255;",                               lambda x: x & 255),
    ("xor.b64 %o, %a, -1;",                                lambda x: ~x),
    ("not.b64 %o, %a;",                                    lambda x: ~x),
    ("shl.b64 %o, %a, 5;",                                 lambda x: x << 5),
    ("shl.b64 %o, %a, 64;",                                lambda x: 0),
    ("shr.u64 %o, %a, 200;",                               lambda x: 0),
    ("shr.u64 %o, %a, 60;",                                lambda x: x % M >> 60),
    ("shr.s64 %o, %a, 200;",                               lambda x: -1 if x < 0 else 0),
    ("neg.s64 %o, %a;",                                    lambda x: -x),
    ("abs.s64 %o, %a;",                                    abs),
    ("min.s64 %o, %a, 5;",                                 lambda x: min(x, 5)),
    ("max.u64 %o, %a, 5;",                                 lambda x: max(x % M, 5)),
    ("bfe.u64 %o, %a, 4, 8;",                              lambda x: x >> 4 & 255),
    ("bfe.s64 %o, %a, 4, 8;",                              lambda x: low(x >> 4, 8)),
    ("bfi.b64 %o, 9, %a, 8, 4;",                           lambda x: x & ~(15 << 8) | 9 << 8),
    ("mov.b64 {%w1, %w2}, %a; mov.b64 %o, {%w2, %w1};",    lambda x: (x % M >> 32) | (x % 2**32) << 32),
    ("mov.b64 {%w1, %w2}, %a; shf.l.wrap.b32 %w3, %w1, %w2, 36; cvt.u64.u32 %o, %w3;", lambda x: (x << 4) % M >> 32),
    ("mov.b64 {%w1, %w2}, %a; shf.r.clamp.b32 %w3, %w1, %w2, 40; cvt.u64.u32 %o, %w3;", lambda x: x % M >> 32),
    ("mov.b64 {%w1, %w2}, %a; prmt.b32 %w3, %w1, %w2, 0x0147; cvt.u64.u32 %o, %w3;",
     lambda x: sum((x >> 8 * (7, 4, 1, 0)[k] & 255) << 8 * k for k in range(4))),
    ("cvt.u32.u64 %w1, %a; lop3.b32 %w2, %w1, 255, 0xF0F0, 0x96; cvt.u64.u32 %o, %w2;", lambda x: (x ^ 255 ^ 0xF0F0) % 2**32),
    ("popc.b64 %w1, %a; cvt.u64.u32 %o, %w1;",             lambda x: bin(x % M).count("1")),
    ("clz.b64 %w1, %a; cvt.u64.u32 %o, %w1;",              lambda x: 64 - (x % M).bit_length()),
    ("brev.b64 %o, %a;",                                   lambda x: int(f"{x % M:064b}"[::-1], 2)),
    ("cvt.u32.u64 %w1, %a; cvt.s64.s32 %o, %w1;",          lambda x: low(x, 32)),
    ("cvt.u16.u64 %h1, %a; cvt.s64.s16 %o, %h1;",          lambda x: low(x, 16)),
    ("cvt.rn.f64.s64 %o, %a;",                             lambda x: bits(float(x))),
    ("cvt.rn.f64.u64 %o, %a;",                             lambda x: bits(float(x % M))),
    ("setp.lt.s64 %p1, %a, 5; selp.b64 %o, 1, 0, %p1;",    lambda x: int(x < 5)),
    ("setp.lo.u64 %p1, %a, 5; selp.b64 %o, 1, 0, %p1;",    lambda x: int(x % M < 5)),
    ("setp.gt.u64 %p1, %a, 5; not.pred %p2, %p1; selp.b64 %o, %a, -7, %p2;", lambda x: x if x % M <= 5 else -7),
    ("mov.b64 %o, 7; setp.gt.s64 %p1, %a, 5; @!%p1 mov.b64 %o, %a;", lambda x: 7 if x > 5 else x),
]
WHOLE = [0, 1, 5, 6, -1, 255, 2**31, -(2**31) - 1, 2**53 + 1, 2**62 + 2**9 + 1, -(2**63), 2**63 - 1, 0x0123456789ABCDEF]
# fmt: on


def low(x, n):
    """The lowest bits, with a sign."""
    return (x + 2 ** (n - 1)) % 2**n - 2 ** (n - 1)


@pytest.mark.parametrize("body, meaning", INTEGERS, ids=[b[:24].strip() for b, _ in INTEGERS])
def test_an_operation_on_integers_is_that_of_the_integers(body, meaning):
    assert of(body, *WHOLE) == [low(meaning(x), 64) for x in WHOLE]


# fmt: off
TO_WHOLE = [
    ("cvt.rzi.s64.f64 %o, %a;",                         [-2, 2, 2**63 - 1, -(2**63), 0, -(2**63)]),
    ("cvt.rni.s64.f64 %o, %a;",                         [-2, 2, 2**63 - 1, -(2**63), 0, -(2**63)]),
    ("cvt.rmi.s64.f64 %o, %a;",                         [-3, 2, 2**63 - 1, -(2**63), 0, -(2**63)]),
    ("cvt.rpi.s64.f64 %o, %a;",                         [-2, 3, 2**63 - 1, -(2**63), 1, -(2**63)]),
    ("cvt.rzi.u64.f64 %o, %a;",                         [0, 2, -1, 0, 0, -(2**63)]),
    ("cvt.rzi.s32.f64 %w1, %a; cvt.s64.s32 %o, %w1;",   [-2, 2, 2**31 - 1, -(2**31), 0, -(2**31)]),
    ("cvt.rn.f32.f64 %w1, %a; cvt.rzi.s32.f32 %w1, %w1; cvt.s64.s32 %o, %w1;", [-2, 2, 2**31 - 1, -(2**31), 0, 0]),
]
# fmt: on


@pytest.mark.parametrize("body, expected", TO_WHOLE, ids=[b[:34] for b, _ in TO_WHOLE])
def test_floats_become_whole_numbers_within_their_range(body, expected):
    assert of(body, -2.5, 2.5, 1e30, -1e30, 1e-9, NAN) == expected


COMPARED = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


@pytest.mark.parametrize("how", [*COMPARED, *(f"{c}u" for c in COMPARED), "num", "nan"])
def test_comparisons_of_floats_know_what_is_no_number(how):
    x = [0.5, 1.0, 2.0, NAN]
    got = of(f"setp.{how}.f64 %p1, %a, 0d3FF0000000000000; selp.b64 %o, 1, 0, %p1;", *x)
    if how in ("num", "nan"):
        assert got == [int((v == v) == (how == "num")) for v in x]
    else:
        expected = [eval(f"{v} {COMPARED[how[:2]]} 1.0") if v == v else how.endswith("u") for v in x[:3]] + [
            how.endswith("u")
        ]
        assert got == [int(e) for e in expected]


# --- control ----------------------------------------------------------------------------------------------
COLLATZ = """
	mov.b64 %o, 0;
again:
	setp.eq.s64 %p1, %a, 1;
	@%p1 bra done;
	add.s64 %o, %o, 1;
	and.b64 %x1, %a, 1;
	setp.eq.s64 %p2, %x1, 0;
	@%p2 bra even;
	mad.lo.s64 %a, %a, 3, 1;
	bra.uni again;
even:
	shr.s64 %a, %a, 1;
	bra again;
done:
"""


def collatz(n):
    return 0 if n == 1 else 1 + collatz(n // 2 if n % 2 == 0 else 3 * n + 1)


def test_threads_that_part_come_together_again():
    numbers = list(range(1, 100))
    assert of(COLLATZ, *numbers) == [collatz(n) for n in numbers]


def test_a_table_of_branches():
    body = """
	cvt.u32.u64 %w1, %a;
	mov.b64 %o, 0;
	brx.idx %w1, $table;
one:	mov.b64 %o, 10;
	bra.uni done;
two:	mov.b64 %o, 20;
done:
"""
    text = kernel(body).replace("mov.b64 %o, 0;", "mov.b64 %o, 0;\n$table: .branchtargets one, two, done;", 1)
    source, out = words(1, 0, 2, 1), np.zeros(4, np.int64)
    run(text, "k", [source, out], threads=4)
    assert out.tolist() == [20, 10, 0, 20]


FUNCTION = """
.func (.param .align 8 .b8 back[16]) both(.param .b64 x, .param .b32 y)
{
	.local .align 8 .b8 depot[16];
	.reg .b64 %SP, %SPL, %d<9>;
	.reg .b32 %e<4>;
	mov.b64 %SPL, depot;
	cvta.local.u64 %SP, %SPL;
	ld.param.b64 %d1, [x];
	ld.param.b32 %e1, [y];
	cvt.s64.s32 %d2, %e1;
	st.local.b64 [%SPL+8], %d2;
	ld.b64 %d3, [%SP+8];
	add.s64 %d4, %d1, %d3;
	st.param.v2.b64 [back], {%d4, %d3};
	ret;
}
"""
CALL = """
	st.local.b64 [own], %a;
	{ // callseq
	.param .b64 p0;
	.param .b32 p1;
	.param .align 8 .b8 r0[16];
	st.param.b64 [p0], %a;
	st.param.b32 [p1], -5;
	call.uni (r0), both, (p0, p1);
	ld.param.v2.b64 {%x1, %x2}, [r0];
	}
	ld.local.b64 %x3, [own];
	mad.lo.s64 %o, %x2, 1000, %x1;
	sub.s64 %x4, %x3, %a;
	add.s64 %o, %o, %x4;
"""


def test_functions_are_called_and_have_their_own_stack():
    assert of(CALL, 7, 100, before=FUNCTION, registers=".local .align 8 .b8 own[8];") == [2 - 5000, 95 - 5000]


def test_tables_are_read_and_constants_are_not_written():
    tables = """
.global .align 8 .b8 tab[24] = {1, 0, 0, 0, 0, 0, 0, 0, 254, 255, 255, 255, 255, 255, 255, 255, 3};
.const .align 8 .f64 numbers[3] = {0d3FF0000000000000, 0d4000000000000000, 2.5};
"""
    read = "shl.b64 %x1, %a, 3; mov.b64 %x2, {name}; add.s64 %x2, %x2, %x1; ld.{space}.b64 %o, [%x2];"
    assert of(read.format(name="tab", space="global.nc"), 0, 1, 2, before=tables) == [1, -2, 3]
    assert floats(
        "cvt.rzi.s64.f64 %a, %a;" + read.format(name="numbers", space="const"), 0, 1, 2, before=tables
    ) == [1.0, 2.0, 2.5]
    with pytest.raises(Fault, match="constants"):
        of("mov.b64 %x2, numbers; st.global.b64 [%x2], %a; mov.b64 %o, 0;", 1, before=tables)


TILE = """
	mov.b64 %x1, tile;
	add.s64 %x2, %x1, %n;
	st.shared.b64 [%x2], %a;
	bar.sync 0;
	xor.b32 %w1, %i, 33;
	mul.wide.u32 %x3, %w1, 8;
	add.s64 %x3, %x1, %x3;
	ld.shared.b64 %o, [%x3];
"""
SHARED = ".shared .align 8 .b8 tile[512];"


@pytest.mark.parametrize("warps", [False, True])
def test_threads_of_a_block_see_what_others_wrote_before_a_barrier(warps):
    source, out = np.arange(64), np.zeros(64, np.int64)
    run(kernel(TILE, registers=SHARED), "k", [source, out], threads=64, warps=warps)
    assert out.tolist() == (np.arange(64) ^ 33).tolist()


def test_a_barrier_that_is_forgotten_is_noticed():
    source, out = np.arange(64), np.zeros(64, np.int64)
    text = kernel(TILE.replace("bar.sync 0;", ""), registers=SHARED)
    with pytest.raises(Race, match="reads byte .* touched since the last barrier"):
        run(text, "k", [source, out], threads=64)
    late = kernel(TILE + "st.shared.b64 [%x2], %o;", registers=SHARED)
    with pytest.raises(Race, match="changes byte"):
        run(late, "k", [source, out], threads=64)


@pytest.mark.parametrize(
    "body, reason",
    [
        (
            "st.global.b64 [%t], %a; ld.param.u64 %t, [out]; ld.global.b64 %o, [%t];",
            "thread 1 reads byte 0 .* which thread 0",
        ),
        (
            "ld.param.u64 %x1, [source]; ld.global.b64 %o, [%x1+8]; add.s64 %x2, %o, 1; st.global.b64 [%s], %x2;",
            "changes byte 8",
        ),
        ("ld.param.u64 %t, [out]; mov.b64 %o, %n;", "changes byte 0"),
    ],
)
def test_threads_that_rely_on_each_other_are_noticed(body, reason):
    with pytest.raises(Race, match=reason):
        of(body, 1, 2, 3)


def test_threads_may_set_one_mark_to_the_same_value():
    assert of("ld.param.u64 %x1, [source]; mov.b64 %o, 5; st.global.b64 [%x1], 1;", 1, 2, 3) == [5, 5, 5]
    assert of(
        "mov.b64 %x1, mark; mov.b64 %o, 5; st.global.b64 [%x1], 1;",
        1,
        2,
        3,
        before=".global .align 8 .u64 mark;",
    ) == [5, 5, 5]


def test_a_barrier_that_not_all_come_to_is_an_error():
    with pytest.raises(Fault, match="others do not come to"):
        of("mov.b64 %o, 0; setp.eq.s64 %p1, %a, 0; @%p1 bra skip; bar.sync 0; skip:", 0, 1)


VOTE = "setp.lt.s64 %p1, %a, 5; and.b32 %w1, %i, 24; shl.b32 %w2, 255, %w1; {between} vote.sync.ballot.b32 %w3, %p1, %w2; cvt.u64.u32 %o, %w3;"


@pytest.mark.parametrize("warps", [False, True])
def test_threads_of_a_warp_vote_among_those_that_they_name(warps):
    source, out = np.arange(48) * 7 % 10, np.zeros(48, np.int64)
    run(kernel(VOTE.format(between="")), "k", [source, out], threads=48, warps=warps)
    said = [sum(1 << k % 32 for k in range(i // 8 * 8, i // 8 * 8 + 8) if source[k] < 5) for i in range(48)]
    assert out.tolist() == said


@pytest.mark.parametrize(
    "between",
    ["mov.b64 %o, 0; setp.eq.s64 %p2, %a, 3; @%p2 bra skip;", "add.s32 %w2, %w2, %i;", "mov.b32 %w2, 2;"],
)
def test_a_vote_that_not_all_come_to_or_agree_on_is_an_error(between):
    with pytest.raises(Fault, match="vote without others that they name"):
        of(VOTE.format(between=between) + " skip:", *range(8))


def test_a_grid_of_blocks_knows_its_places():
    body = """mov.u32 %w1, %ctaid.x; mov.u32 %w2, %ntid.x; mov.u32 %w3, %nctaid.x; mov.u32 %w5, %laneid;
	mad.lo.s32 %w4, %w1, %w2, %i; mul.wide.u32 %n, %w4, 8; ld.param.u64 %t, [out]; add.s64 %t, %t, %n;
	mul.lo.s32 %w4, %w1, 1000000; mad.lo.s32 %w4, %w3, 1000, %w4; add.s32 %w4, %w4, %w5; cvt.u64.u32 %o, %w4;"""
    out = np.zeros(3 * 40, np.int64)
    run(kernel(body), "k", [np.zeros(40, np.int64), out], blocks=3, threads=40)
    assert out.tolist() == [b * 1000000 + 3000 + t % 32 for b in range(3) for t in range(40)]


def test_atomics_of_integers_add_up_and_those_of_floats_are_refused():
    out = np.zeros(64, np.int64)
    run(
        kernel("ld.param.u64 %x1, [source]; red.global.add.u64 [%x1], 2; mov.b64 %o, 0;"),
        "k",
        [s := np.zeros(64, np.int64), out],
        threads=64,
    )
    assert s[0] == 128
    with pytest.raises(Unknown, match="floating-point atomics"):
        of("atom.global.add.f64 %o, [%s], %a;", 1.0)


# --- what is refused --------------------------------------------------------------------------------------
# fmt: off
REFUSED = [
    "add.f64 %o, %a, %a;", "mul.f64 %o, %a, %a;", "fma.f64 %o, %a, %a, %a;", "add.rz.f64 %o, %a, %a;", "div.full.f32 %w1, %w2, %w3;",
    "sqrt.approx.f32 %w1, %w2;", "add.rn.ftz.f32 %w1, %w2, %w3;", "rsqrt.approx.f64 %o, %a;", "ex2.approx.f32 %w1, %w2;",
    "shfl.sync.idx.b32 %w1, %w2, 0, 31, -1;", "addc.u64 %o, %a, %a;", "vote.sync.any.pred %p1, %p2, -1;", "mov.u64 %o, %clock64;",
]
# fmt: on


@pytest.mark.parametrize("body", REFUSED, ids=[b.split()[0] for b in REFUSED])
def test_an_instruction_that_is_not_understood_is_named(body):
    with pytest.raises(Unknown) as error:
        of(body, 1.0)
    words_ = body.rstrip(";").split()
    assert words_[0] in str(error.value) or words_[-1] in str(error.value)


@pytest.mark.parametrize(
    "body, reason",
    [
        ("mov.b64 %x1, 64; ld.global.b64 %o, [%x1];", "nobody's"),
        ("ld.global.b64 %o, [%s+32];", "32 bytes into 32|bytes into"),
        ("ld.global.b64 %o, [%s+4];", "not aligned"),
        ("st.global.b64 [%t+800], %a; mov.b64 %o, %a;", "bytes into 32"),
        ("mov.b64 %x1, tile; ld.shared.b64 %o, [%x1+512];", "of 512 shared ones"),
        ("trap;", "came to `trap`"),
    ],
)
def test_memory_that_is_not_there_is_a_fault(body, reason):
    with pytest.raises(Fault, match=reason):
        of(body, 1, 2, 3, 4, registers=SHARED)


def test_memory_that_is_freed_is_nobodys():
    memory = Memory()
    a, b = memory.allocate(8), memory.allocate(8)
    loaded = load(kernel("mov.b64 %o, %a;"), memory)
    memory.free(a)
    params = [np.uint64(x).tobytes() for x in (a, b)]
    with pytest.raises(Fault, match="freed"):
        Launch(loaded, "k", memory, params, (1, 1, 1), (1, 1, 1)).run()
    with pytest.raises(Fault, match="freed again"):
        memory.free(a)


@pytest.mark.parametrize(
    "text",
    [
        "",
        HEAD + "nonsense;",
        kernel("mov.b64 %o, %unknown;"),
        kernel("add.s64 %o, %a;x"),
        HEAD.replace("64", "32"),
        kernel("bra nowhere;"),
        HEAD + ".visible .entry k() { ret;",
    ],
)
def test_a_text_that_is_no_ptx_is_refused(text):
    with pytest.raises(BadPtx):
        run(text, "k", [words(1), words(1)])


def test_an_endless_loop_ends(monkeypatch):
    monkeypatch.setattr("ptx_machine.MOST", 10_000)
    with pytest.raises(BadPtx, match="does not end"):
        of("mov.b64 %o, 0; again: bra again;", 1)


def test_instructions_that_ran_are_counted():
    source, out = words(1, 2), np.zeros(2, np.int64)
    launch = run(
        kernel("add.s64 %o, %a, 1; bra done; sub.s64 %o, %a, 1; done:"), "k", [source, out], threads=2
    )
    assert (
        launch.executed["add.s64"] == 3
        and "sub.s64" not in launch.executed
        and launch.executed["st.global.b64"] == 1
    )


def test_a_module_is_read_whole():
    m = parsed(kernel("mov.b64 %o, 0;", before=FUNCTION))
    assert (m.version, m.target, m.entries) == ("7.8", "sm_90", ["k"]) and list(m.functions) == ["both", "k"]
    assert [v.size for v in m.functions["both"].params] == [8, 4] and m.functions["both"].results[
        0
    ].size == 16
