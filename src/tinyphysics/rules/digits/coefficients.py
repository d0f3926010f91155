"""The numbers that the elementary functions are made of.

Printed by tools/coefficients.py, which says what each polynomial approximates; the comment beside it is
the largest relative error that it leaves in its function. Change the tool, not this file.
"""

from __future__ import annotations


def numbers(text: str) -> tuple[float, ...]:
    """Floats by their bits: hexadecimal, one behind the other."""
    return tuple(map(float.fromhex, text.split()))


# fmt: off
F64: dict[str, tuple[float, ...]] = {
    "sin": numbers(  # 2**-61.5
        "-0x1.5555555555555p-3 0x1.11111111110c8p-7 -0x1.a01a01a014d55p-13 0x1.71de3a529f42cp-19 "
        "-0x1.ae6454d37e924p-26 0x1.6123ccb83a95ap-33 -0x1.ae436bea0a7e4p-41 0x1.882fb3bd6bf99p-49"),
    "sin_short": numbers(  # 2**-52.5
        "-0x1.55555555554a3p-3 0x1.111111110a2a6p-7 -0x1.a01a019a4620fp-13 0x1.71de37fc8b9fdp-19 "
        "-0x1.ae6352619c519p-26 0x1.60e6393720258p-33 -0x1.9f04890f21cd8p-41"),
    "sin_quarter": numbers(  # 2**-57.9
        "-0x1.5555555555548p-3 0x1.111111110f730p-7 -0x1.a01a019be9215p-13 0x1.71de35552b460p-19 "
        "-0x1.ae5e4b8400787p-26 0x1.5d8b55ac1770fp-33"),
    "cos_quarter": numbers(  # 2**-63.8
        "0x1.555555555554ap-5 -0x1.6c16c16c14e00p-10 0x1.a01a019c5c38fp-16 -0x1.27e4f7cd312efp-22 "
        "0x1.1ee9c335098ddp-29 -0x1.8f99cb2e5bba8p-37"),
    "exp": numbers(  # 2**-57.2
        "0x1.000000000000ap-1 0x1.5555555555504p-3 0x1.5555555550609p-5 0x1.1111111125526p-7 "
        "0x1.6c16c184f0312p-10 0x1.a01a0135d8cbcp-13 0x1.a019978a3be15p-16 0x1.71df15cc65e4cp-19 "
        "0x1.28affd3733efdp-22 0x1.ad81397f98ec6p-26"),
    "expm1": numbers(  # 2**-60.6
        "0x1.0000000000000p-1 0x1.5555555555559p-3 0x1.5555555555558p-5 0x1.111111110f73fp-7 "
        "0x1.6c16c16c15359p-10 0x1.a01a01af859fep-13 0x1.a01a01a8871d4p-16 0x1.71ddf96d4027cp-19 "
        "0x1.27e4e5431d216p-22 0x1.af5cc2fc023e6p-26 0x1.1f4902494533dp-29"),
    "log": numbers(  # 2**-59.5
        "0x1.5555555555592p-1 0x1.999999997ff63p-2 0x1.24924941db434p-2 0x1.c71c521a202fap-3 "
        "0x1.74663ba1c0660p-3 0x1.39a20bccebe25p-3 0x1.2f024ff9e5d5ap-3"),
    "log_tail": numbers(  # 2**-73.5
        "0x1.9999999999996p-2 0x1.2492492492f50p-2 0x1.c71c71c596bd3p-3 0x1.745d18293cecdp-3 "
        "0x1.3b1364d0976e4p-3 0x1.11206e0d6d3a6p-3 0x1.de3d9e87faf63p-4 0x1.eac44337523d6p-4"),
    "asin": numbers(  # 2**-55.9
        "0x1.5555555555390p-3 0x1.333333336e831p-4 0x1.6db6db427834dp-5 0x1.f1c72c39d1ac5p-6 "
        "0x1.6e89f42912e0ep-6 0x1.1c6be32619b0dp-6 0x1.c6fda1aced10ap-7 0x1.8ec3dc6ebd94cp-7 "
        "0x1.abc7635e080b9p-8 0x1.3ffa5f8d52afbp-6 -0x1.09dc7bbc26b16p-6 0x1.0570bc3147144p-5"),
    "atan": numbers(  # 2**-56.9
        "-0x1.5555555555526p-2 0x1.99999999955b1p-3 -0x1.249249237ee22p-3 0x1.c71c717f9b9cep-4 "
        "-0x1.745d11a9a3709p-4 0x1.3b13665a15187p-4 -0x1.110e4f056367dp-4 0x1.e1bb8d1a518cfp-5 "
        "-0x1.ae5e0323753abp-5 0x1.82d959f225e95p-5 -0x1.599feef0ba545p-5 0x1.2c25729d8325dp-5 "
        "-0x1.e9dab5a4c379ap-6 0x1.68114505ca5d8p-6 -0x1.c732583d9ea29p-7 0x1.d7222586cd7a1p-8 "
        "-0x1.7988fa9955272p-9 0x1.b2e16bec164c0p-11 -0x1.3e25cf0f6a54ap-13 0x1.ba0a25debaca3p-17"),
    "erf": numbers(  # 2**-56.0
        "0x1.06eba8214db68p-3 -0x1.812746b03799dp-2 0x1.ce2f21a03f8b8p-4 -0x1.b82ce311a9743p-6 "
        "0x1.565bcceed84b7p-8 -0x1.c02daeb69b3d7p-11 0x1.f9a296a7b076ap-14 -0x1.f4c82e0f17817p-17 "
        "0x1.b96b4c410887dp-20 -0x1.5b8c1d69e7552p-23 0x1.d3db3e3df4a08p-27 -0x1.a23606187207bp-31"),
    "erf_far": numbers(  # 2**-58.0
        "-0x1.d97fbf27aa2a1p+0 -0x1.51c9b0006c243p+1 -0x1.afabc11a28be0p-1 -0x1.5477f09cccca9p-5 "
        "0x1.48c9d40bf85bfp-7 -0x1.033f68e83d9cbp-9 0x1.f1b45c3bba64cp-13 0x1.b8cc152c089d3p-16 "
        "-0x1.c78258e1419b8p-16 0x1.41ff2a94a26cep-17 -0x1.129ea8c01ed3ep-19 0x1.1b115ed912891p-23 "
        "0x1.bf9c2b55e0247p-24 -0x1.d89d895bd38f6p-25 0x1.10dfdd8f73a2bp-26 -0x1.a8678171af8d3p-29 "
        "0x1.bac77be44a99bp-32 -0x1.1959c19a395b9p-35 0x1.498259aef6548p-40"),
    "pi": numbers("0x1.921fb54442d18p+1 0x1.1a62633145c06p-53 0x1.c1cd129024e08p-106"),
    "half_pi": numbers("0x1.921fb54442d18p+0 0x1.1a62633145c06p-54 0x1.c1cd129024e08p-107"),
    "inverse_pi": numbers("0x1.45f306dc9c883p-2"),
    "inverse_half_pi": numbers("0x1.45f306dc9c883p-1"),
    "log2_e": numbers("0x1.71547652b82fep+0"),
    "ln2": numbers("0x1.62e42fefa39efp-1 0x1.abc9e3b39803fp-56"),
    "ln2_short": numbers("0x1.62e42fefa3800p-1 0x1.ef35793c76730p-45"),
    "two_thirds": numbers("0x1.5555555555555p-1 0x1.5555555555555p-55"),
}
F32: dict[str, tuple[float, ...]] = {
    "sin": numbers(  # 2**-31.0
        "-0x1.5555560000000p-3 0x1.1111360000000p-7 -0x1.a023cc0000000p-13 0x1.72cdda0000000p-19 "
        "-0x1.b624080000000p-26"),
    "sin_short": numbers(  # 2**-27.2
        "-0x1.55554c0000000p-3 0x1.110ed80000000p-7 -0x1.9f70540000000p-13 0x1.5dbdd00000000p-19"),
    "sin_quarter": numbers(  # 2**-27.8
        "-0x1.5555440000000p-3 0x1.1106c60000000p-7 -0x1.991c280000000p-13"),
    "cos_quarter": numbers(  # 2**-33.0
        "0x1.55554a0000000p-5 -0x1.6c0c260000000p-10 0x1.99e7140000000p-16"),
    "exp": numbers(  # 2**-28.0
        "0x1.fffffc0000000p-2 0x1.5554920000000p-3 0x1.55588a0000000p-5 0x1.123b1e0000000p-7 "
        "0x1.6a99ba0000000p-10"),
    "expm1": numbers(  # 2**-30.4
        "0x1.0000000000000p-1 0x1.5555540000000p-3 0x1.5554f80000000p-5 0x1.1112ce0000000p-7 "
        "0x1.6d40780000000p-10 0x1.9ea0e80000000p-13"),
    "log": numbers(  # 2**-30.2
        "0x1.55557a0000000p-1 0x1.995ed80000000p-2 0x1.31e03c0000000p-2"),
    "log_tail": numbers(  # 2**-36.8
        "0x1.999a000000000p-2 0x1.2452780000000p-2 0x1.dfa3bc0000000p-3"),
    "asin": numbers(  # 2**-27.6
        "0x1.5555c80000000p-3 0x1.3302040000000p-4 0x1.747bba0000000p-5 0x1.8c3e260000000p-6 "
        "0x1.595c940000000p-5"),
    "atan": numbers(  # 2**-28.5
        "-0x1.55553e0000000p-2 0x1.9991e40000000p-3 -0x1.2420840000000p-3 0x1.c08c1a0000000p-4 "
        "-0x1.5808140000000p-4 0x1.da24ca0000000p-5 -0x1.fd6fbc0000000p-6 0x1.6410e60000000p-7 "
        "-0x1.d32dbc0000000p-10"),
    "erf": numbers(  # 2**-29.4
        "0x1.06eba80000000p-3 -0x1.81273e0000000p-2 0x1.ce2ce60000000p-4 -0x1.b7f71a0000000p-6 "
        "0x1.53f2240000000p-8 -0x1.a3515e0000000p-11 0x1.4771fe0000000p-14"),
    "erf_far": numbers(  # 2**-26.9
        "-0x1.d97fc00000000p+0 -0x1.51c9820000000p+1 -0x1.afb7540000000p-1 -0x1.5070de0000000p-5 "
        "0x1.2115f60000000p-7 -0x1.2057b60000000p-11 -0x1.14cf8a0000000p-11 0x1.37deaa0000000p-13"),
    "pi": numbers("0x1.921fb40000000p+1 0x1.4442d00000000p-23 0x1.8469880000000p-47"),
    "half_pi": numbers("0x1.921fb40000000p+0 0x1.4442d00000000p-24 0x1.8469880000000p-48"),
    "inverse_pi": numbers("0x1.45f3060000000p-2"),
    "inverse_half_pi": numbers("0x1.45f3060000000p-1"),
    "log2_e": numbers("0x1.7154760000000p+0"),
    "ln2": numbers("0x1.62e4300000000p-1 -0x1.05c6100000000p-29"),
    "ln2_short": numbers("0x1.62e4000000000p-1 0x1.7f7d1c0000000p-20"),
    "two_thirds": numbers("0x1.5555560000000p-1 -0x1.5555560000000p-26"),
}

# the first 1,280 bits of 1/(2 pi) after the point
INVERSE_TURN = int(
    "28be60db9391054a7f09d5f47d4d377036d8a5664f10e4107f9458eaf7aef1586dc91b8e909374b8"
    "01924bba827464873f877ac72c4a69cfba208d7d4baed1213a671c09ad17df904e64758e60d4ce7d"
    "272117e2ef7e4a0ec7fe25fff7816603fbcbc462d6829b47db4d9fb3c9f2c26dd3d18fd9a797fa8b"
    "5d49eeb1faf97c5ecf41ce7de294a4ba9afed7ec47e357421580cc11bf1edaeafc33ef0826bd0d87"
    , 16)
# fmt: on
