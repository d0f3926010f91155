"""WebGPU: operations in whole numbers, what an adapter rounds, and the bits of every other backend where they are claimed."""

import hashlib
import json
import os
import shutil
import subprocess
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import tinyphysics as tp
from here import missing, need
from tinyphysics.context import WEBGPU_ADAPTER, Flag
from tinyphysics.device.host.arrays import Evaluator
from tinyphysics.device.webgpu import driver
from tinyphysics.device.webgpu.probe import OURS, OWN, ROWS, Probe, expected, judged, triples
from tinyphysics.errors import BackendError, InputError
from tinyphysics.explorer.page import ASSETS
from tinyphysics.ir import UOp, f32
from tinyphysics.rules.functions import whole_float
from tinyphysics.runtime.engines import webgpu
from tinyphysics.tpir.kernels.rows import kernel_of

pytestmark = pytest.mark.requirement("S1-68")
SWIFTSHADER = Path(
    "/usr/lib/chromium/vk_swiftshader_icd.json"
)  # Chromium brings a driver that every machine can run
if SWIFTSHADER.exists():
    os.environ.setdefault("VK_ICD_FILENAMES", str(SWIFTSHADER))


# --- in whole numbers ------------------------------------------------------------------------------
def rounded(exact):
    """A fraction that is not 0, in float32."""
    size = abs(exact)
    e = size.numerator.bit_length() - size.denominator.bit_length()
    e -= size < Fraction(2) ** e
    unit = Fraction(2) ** max(e - 23, -149)
    size = round(size / unit) * unit  # half to even
    return np.copysign(np.float32(np.inf if size >= 2**128 else float(size)), 1 if exact > 0 else -1)


def fused(x, y, z):
    if not np.isfinite([x, y, z]).all() or x == 0 or y == 0:
        return np.float32(np.float64(x) * np.float64(y) + np.float64(z))
    exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
    return rounded(exact) if exact else np.float32(0)


def numbers(r, n):
    """Of any bits; near each other; subnormal or nearly; at the edge of a significand."""
    bits, k = r.integers(0, 1 << 32, n, dtype=np.uint64).astype(np.uint32), r.integers(0, 4, n)

    def field(low, high):
        return (bits & 0x807FFFFF) | (r.integers(low, high, n).astype(np.uint32) << 23)

    edge = np.array([0, 1, 0x7FFFFF, 0x400000, 0x7FF000], np.uint32)[r.integers(0, 5, n)]
    out = np.select(
        [k == 0, k == 1, k == 2], [bits, field(90, 150), field(0, 30)], (bits & 0xFF800000) | edge
    )
    return out.astype(np.uint32).view(np.float32)


def same(a, b):
    a, b = np.asarray(a, np.float32), np.asarray(b, np.float32)
    return (a.view(np.uint32) == b.view(np.uint32)) | np.isnan(a) & np.isnan(b)


@pytest.mark.parametrize("count", [5_000, pytest.param(200_000, marks=pytest.mark.all)])
def test_operations_in_whole_numbers_have_the_rounding_of_rationals(count):
    r = np.random.default_rng(count)
    x, y, z = (numbers(r, count) for _ in range(3))
    with np.errstate(all="ignore"):
        cancels = -(x * y) * (1 + r.integers(-2, 3, count) * 2.0**-23).astype(np.float32)
        z = np.where(r.integers(0, 3, count) == 0, cancels, z).astype(np.float32)
        v = [UOp.var(n, (), f32) for n in "xyz"]
        roots = [whole_float.fused(*v), whole_float.quotient(*v[:2]), whole_float.root(v[0])]
        found = Evaluator(roots)(dict(zip(v, (x, y, z))))
        assert same(found[1], x / y).all() and same(found[2], np.sqrt(x)).all()
        want = np.array([fused(*three) for three in zip(x, y, z)], np.float32)
    wrong = np.flatnonzero(~same(found[0], want))
    assert not wrong.size, (x[wrong[0]], y[wrong[0]], z[wrong[0]])


# --- what an adapter rounds ------------------------------------------------------------------------
def found_by(change):
    """The probe of an adapter whose results are right but for what is changed."""
    given = triples()
    rows = {k: np.array(v) for k, v in expected(*given).items()}
    marks = np.zeros(given.shape[1], np.uint32)
    change(given, rows)
    one = judged(given, OWN, [rows[r] for r in OWN], marks)
    two = judged(given, OURS, [rows[r] for r in OURS], marks)
    return replace(one, wrong=one.wrong | two.wrong, subnormal=one.subnormal | two.subnormal)


def test_an_adapter_that_rounds_as_it_should_claims_bits():
    p = found_by(lambda given, rows: None)
    assert p.claims_bits and p.keeps_small and all(p.switches.values()) and p.triples == 65_536
    assert Probe.read(p.written()) == p and Probe.read(b"{}") is None and Probe.read(None) is None


def test_a_sum_that_a_compiler_removed_takes_the_claim_away():
    p = found_by(lambda given, rows: rows.update(survives=given[1]))
    assert not p.claims_bits and "(x+y)−x is wrong in" in str(p)


def test_a_product_and_a_sum_for_a_fused_operation_leave_the_claim():
    with np.errstate(all="ignore"):
        p = found_by(lambda given, rows: rows.update(fused=given[0] * given[1] + given[2]))
    assert p.claims_bits and not p.switches["OWN_FUSED"] and p.switches["OWN_ROOT"]
    assert "fma in whole numbers" in str(p)


def test_lost_subnormal_numbers_are_said():
    def flush(given, rows):
        for name in OWN:
            rows[name][np.abs(rows[name]) < 2.0**-126] = 0

    p = found_by(flush)
    assert p.claims_bits and not p.keeps_small and "it loses subnormal numbers" in str(p)


@pytest.mark.parametrize("row", OURS)
def test_one_wrong_result_of_a_kernels_own_function_takes_the_claim_away(row):
    def one(given, rows):
        k = np.flatnonzero(np.isfinite(rows[row]) & (rows[row] != 0))[0]
        rows[row][k] = -rows[row][k]

    assert not found_by(one).claims_bits
    assert row in ROWS


# --- runs ------------------------------------------------------------------------------------------
@tp.hamiltonian
def pendulum(q, p):
    return p**2 / 2 - tp.cos(q)


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.norm(q)


@tp.hamiltonian
def henon_heiles(q: tp.Vec[2], p: tp.Vec[2]):
    return (p @ p + q @ q) / 2 + q[0] ** 2 * q[1] - q[1] ** 3 / 3


@tp.hamiltonian
def driven(q, p, t):
    return p**2 / 2 - tp.cos(q) - 0.1 * q * tp.cos(2 * t)


@tp.hamiltonian
def well(q, p):
    return p**2 / 2 + q**4 / 4 - q**2 / 2


SYSTEMS = {
    "pendulum": (pendulum, 0.05, {"q": 1.0, "p": 0.3}),
    "kepler": (kepler, 0.02, {"q": [1.0, 0.0], "p": [0.0, 1.2]}),
    "henon_heiles": (henon_heiles, 0.05, {"q": [0.1, 0.2], "p": [0.3, 0.1]}),
}


def members(start, n):
    return {k: np.array([np.asarray(x) * (1 + 1e-3 * i) for i in range(n)]) for k, x in start.items()}


@pytest.fixture(scope="module")
def bits():
    """Inside, an adapter that claims bits."""
    if why := missing("webgpu"):
        pytest.skip(why)
    for k in range(len(driver.adapters())):
        with WEBGPU_ADAPTER(k):
            if webgpu.probed().claims_bits:
                yield driver.machine()
                return
    pytest.skip("no WebGPU adapter here has the bits of float32: Chromium's SwiftShader has")


def run(name, backend, steps, n=1, precision="float32"):
    system, dt, start = SYSTEMS[name]
    sim = tp.compile(system, dt, backend=backend, precision=precision)
    return sim.evolve(**(members(start, n) if n > 1 else start), steps=steps)


@pytest.mark.parametrize("name", ["kepler", *(pytest.param(n, marks=pytest.mark.all) for n in SYSTEMS)])
def test_a_run_has_the_hash_of_llvm(bits, name):
    out = run(name, "webgpu", 100, 3)
    assert out.hash == run(name, "llvm", 100, 3).hash and ":" not in out.hash
    assert out.metrics["backend"]["used"] == "webgpu" and out.metrics["webgpu"]["bits"]
    assert out.metrics["device"] == str(bits.info)


@pytest.mark.all
@pytest.mark.slow("the row that is promised: 10,000 steps of 100 members")
@pytest.mark.parametrize("precision", ["float32", "compensated"])
@pytest.mark.parametrize("n", [1, 100])
@pytest.mark.parametrize("name", SYSTEMS)
def test_a_long_run_has_the_hash_of_llvm(bits, name, n, precision):
    assert run(name, "webgpu", 10_000, n, precision).hash == run(name, "llvm", 10_000, n, precision).hash


# fmt: off
OTHERS = {
    "frames":      lambda b: tp.compile(kepler, 0.02, backend=b, precision="float32").evolve(
        **SYSTEMS["kepler"][2], steps=60, save_every=7),
    "parameters":  lambda b: tp.compile(kepler, 0.02, backend=b, precision="compensated").evolve(
        **members(SYSTEMS["kepler"][2], 5), mu=np.linspace(0.9, 1.1, 5), steps=60),
    "the time":    lambda b: tp.compile(driven, 0.05, backend=b, precision="compensated").evolve(q=1.0, p=0.0, steps=90),
    "noise":       lambda b: tp.compile(well, 0.05, backend=b, precision="float32", temperature=0.5, friction=1.0).evolve(
        q=np.zeros(8), p=np.zeros(8), steps=150, seed=3),
    "a large angle": lambda b: tp.compile(pendulum, 0.05, backend=b, precision="float32").evolve(
        q=[1.0, 3e5], p=[0.0, 1.0], steps=50),
    "subnormal numbers": lambda b: tp.compile(well, 0.05, backend=b, precision="float32").evolve(
        q=[1e-40, 1.0, 1e-20], p=[0.0, 0.0, 0.0], steps=50),
    "a part of a step": lambda b: tp.compile(kepler, 0.02, backend=b, precision="float32").evolve(
        **SYSTEMS["kepler"][2], until=1.017),
}
# fmt: on


@pytest.mark.all
@pytest.mark.parametrize("what", OTHERS)
def test_other_runs_have_the_hash_of_llvm(bits, what):
    out, other = OTHERS[what]("webgpu"), OTHERS[what]("llvm")
    done_here = out.metrics["webgpu"]["blocks_done_here"]
    assert done_here > 0 if what == "a large angle" else done_here == 0 or what == "subnormal numbers"
    assert out.hash == other.hash and np.array_equal(out.drift("energy"), other.drift("energy"))


def test_an_adapter_that_passed_and_then_differs_is_an_error(bits, monkeypatch):
    wrong = dict.fromkeys(bits._probe.switches, True)
    if bits._probe.switches == wrong:
        pytest.skip("this adapter's own operations are all right")
    monkeypatch.setattr(Probe, "switches", wrong)

    @tp.hamiltonian
    def other(q: tp.Vec[2], p: tp.Vec[2]):
        return p @ p / 2 - 1 / tp.norm(q) + q[0] ** 2 / 7

    sim = tp.compile(other, 0.013, backend="webgpu", precision="float32")
    with pytest.raises(BackendError, match="passed the probe, but after 64 steps member . has other bits"):
        sim.evolve(**members(SYSTEMS["kepler"][2], 2), steps=100)


def test_the_report_says_what_the_adapter_rounds(bits):
    text = str(tp.compile(kepler, 0.02, backend="webgpu", precision="float32").explain("full"))
    assert "the bits of float32 on 65,536 triples" in text and bits.info.name in text


def test_opengl_is_refused_the_claim_of_bits():
    need("webgpu")
    gl = [k for k, a in enumerate(driver.adapters()) if a.backend == "OpenGL" and "llvmpipe" in a.name]
    if not gl:
        pytest.skip("no OpenGL llvmpipe here")
    with WEBGPU_ADAPTER(gl[0]):
        assert not webgpu.probed().claims_bits
        out = run("kepler", "webgpu", 70, 2)
        assert out.hash.startswith("webgpu:") and not out.metrics["webgpu"]["bits"]
        assert out.metrics["webgpu"]["off_at_first"] < 1e-4
        system, dt, start = SYSTEMS["kepler"]
        for precision in ("compensated", "float32"):  # error words are compared with what they are added to
            sim = tp.compile(system, dt, backend="webgpu", precision=precision)
            one = sim.evolve(**start, steps=70, hash_every=35, options={"observer": "none"})
            assert one.hash.startswith("webgpu:") and one.metrics["webgpu"]["off_at_first"] < 1e-4
            along = sim.evolve(**start, steps=70, hash_every=35)
            again = sim.evolve(steps=35, resume=along, hash_every=35)
            for _, h in (*along.hashes, *again.hashes):
                assert h.startswith("webgpu:") and h.count(":") == 1
        assert "does not have the bits of llvm ((x+y)−x is wrong in" in out.metrics["notes"][0]


# --- what is refused -------------------------------------------------------------------------------
@pytest.mark.parametrize("precision", ["float64", "dd", "lattice", "mixed"])
def test_what_needs_64_bits_is_refused_and_wasm_offered(precision):
    need("webgpu")
    with pytest.raises(BackendError, match='WebGPU has no numbers of 64 bits.*\n.*backend="wasm"'):
        tp.compile(kepler, 0.02, backend="webgpu", precision=precision).evolve(
            **SYSTEMS["kepler"][2], steps=1
        )
    with pytest.raises(BackendError, match="WebGPU has no numbers of 64 bits"):
        tp.compile(kepler, 0.02, precision=precision).ir("wgsl")


def test_a_driver_that_gives_up_is_named(bits, monkeypatch):
    def lost(*given):
        raise RuntimeError("Parent device is lost")

    monkeypatch.setattr(driver.Machine, "dispatch", lost)
    with pytest.raises(BackendError, match="failed: Parent device is lost"):
        run("kepler", "webgpu", 10, 3)


def test_without_wgpu_the_error_has_the_line_that_installs_it(monkeypatch):
    driver.wgpu.cache_clear()

    def none(name):
        raise ImportError(name)

    monkeypatch.setattr(driver, "import_module", none)
    try:
        with pytest.raises(BackendError, match=r'needs wgpu.*\n.*pip install "tinyphysics\[webgpu\]"'):
            driver.wgpu()
    finally:
        monkeypatch.undo()
        driver.wgpu.cache_clear()


def test_an_adapter_that_is_not_there_is_named():
    need("webgpu")
    with WEBGPU_ADAPTER(99), pytest.raises(BackendError, match="no WebGPU adapter 99"):
        driver.machine()


def test_how_far_an_adapter_is_off_is_of_one_run_and_of_whole_numbers():
    assert webgpu.together(np.array([[1, 2], [1e-8, 0], [3, 4]], np.float32), (0, 0, 2)).tolist() == [
        [1 + float(np.float32(1e-8)), 2], [0, 0], [3, 4]
    ]  # fmt: skip
    k = kernel_of(tp.compile(kepler, 0.02, precision="compensated").built.program)
    assert k.section("step").highs == (0, 1, 0, 1, 4, 5, 4, 5)


@pytest.mark.parametrize("dt", [[0.02, 1], [0.02], "a", None, float("nan")])
def test_words_are_of_one_number(dt):
    kernel = tp.compile(kepler, 0.02, precision="float32").kernel("wgsl")
    assert kernel.words("section_step", {"dt": 0.02}) == kernel.words("section_step")
    with pytest.raises(InputError, match="dt=.* is not a number"):
        kernel.words("section_step", {"dt": dt})


def test_a_variable_that_is_no_number_is_an_error_of_what_reads_it(monkeypatch):
    monkeypatch.setenv("TINYPHYSICS_WEBGPU_ADAPTER", "x")
    read = Flag("WEBGPU_ADAPTER", 0, "")
    assert read.told == "x"
    with pytest.raises(InputError, match="TINYPHYSICS_WEBGPU_ADAPTER='x' is not a whole number"):
        read.value  # noqa: B018
    with read(1):
        assert read.value == read.told == 1


def test_the_text_has_a_function_for_each_section_and_one_text_for_every_adapter():
    text = tp.compile(kepler, 0.02, precision="float32").ir("wgsl")
    for name in ("init", "step", "final"):
        assert f"fn section_{name}(" in text
    assert "override OWN_FUSED: bool = false;" in text and "f64" not in text
    assert "// $mu" in text and "fused(" in text


def test_the_shader_binds_the_same_buffers_whatever_the_system():
    heads = set()
    for name, (system, dt, _) in SYSTEMS.items():
        text = tp.compile(system, dt, precision="float32").ir("wgsl")
        heads.add(text[: text.index("override")])
        assert "atomic" not in text, name
    (head,) = heads
    assert [f"@group(0) @binding({k})" in head for k in range(7)] == [True] * 7


# --- in a browser ----------------------------------------------------------------------------------
def test_the_page_asks_an_adapter_what_python_asks():
    """The numbers and what is expected of them, in node."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    program = f"""
      const {{ Gpu }} = require({json.dumps(str(ASSETS / "gpu.js"))}), crypto = require("crypto");
      const digest = (a) => crypto.createHash("sha256").update(new Uint8Array(a.buffer)).digest("hex");
      const x = Gpu.triples(), n = x.length / 3, names = [...Gpu.OWN, ...Gpu.OURS], out = [];
      names.forEach(() => out.push(new Float32Array(n)));
      for (let k = 0; k < n; k++) Gpu.expected(x[k], x[n + k], x[2 * n + k]).forEach((v, j) => {{ out[j][k] = v === v ? v : 0; }});
      console.log(JSON.stringify([names, digest(x), out.map(digest)]));
    """
    ran = subprocess.run([node, "-e", program], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    given = triples()
    want = {k: np.where(np.isnan(v), np.float32(0), v) for k, v in expected(*given).items()}
    names, numbers_of, rows = json.loads(ran.stdout)
    assert tuple(names) == ROWS and numbers_of == hashlib.sha256(given.tobytes()).hexdigest()
    wrong = [n for n, d in zip(names, rows) if d != hashlib.sha256(want[n].tobytes()).hexdigest()]
    assert wrong == []


@pytest.fixture(scope="module")
def browser():
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium is installed")
    flags = ["--no-sandbox", "--use-webgpu-adapter=swiftshader", "--enable-unsafe-webgpu"]
    with sync.sync_playwright() as p:
        b = p.chromium.launch(executable_path=path, args=flags)
        yield b
        b.close()


IN_PAGE = """async ([members, start, steps]) => {
  const run = await Machine.Run.make(page.data().kernel, members);
  run.begin(start);
  const steps_ = await Gpu.Steps.make(page.adapter(), run);
  await steps_.advance(run, steps);
  run.look();
  return [run.hash(), steps_.elsewhere, steps_.off];
}"""


@pytest.mark.all
@pytest.mark.slow("Chromium, 10,000 steps of one and of 100 members")
@pytest.mark.parametrize("name", SYSTEMS)
def test_in_chromium_the_gpu_has_the_hash_of_llvm(browser, tmp_path, name):
    system, dt, start = SYSTEMS[name]
    sim = tp.compile(system, dt, precision="float32")
    file = tmp_path / "run.html"
    sim.explore(**start, steps=10_000, html=file)
    one = browser.new_page()
    one.goto(file.as_uri())
    one.wait_for_selector("html[data-ready=yes]")
    if not one.evaluate("navigator.gpu ? navigator.gpu.requestAdapter().then((a) => !!a) : false"):
        pytest.skip("this Chromium finds no WebGPU adapter")
    one.check("#gpu")
    one.wait_for_selector("#adapter[data-claims=true]")
    one.click("#end")
    one.wait_for_selector("#hash[data-hash]")
    assert one.inner_text("#hash").endswith("✓ equals out.hash of Python, llvm")
    many = members(start, 100)
    # a page reads the numbers of a member one after the other
    rows = np.concatenate([np.reshape(x, (100, -1)) for x in many.values()], axis=1)
    found, elsewhere, off = one.evaluate(IN_PAGE, [100, np.ravel(rows).tolist(), 10_000])
    assert found == sim.evolve(**many, steps=10_000).hash and not elsewhere and not off
    one.close()


@pytest.mark.all
def test_in_chromium_a_member_that_is_marked_is_done_in_webassembly(browser, tmp_path):
    sim = tp.compile(well, 0.05, precision="float32")
    file = tmp_path / "run.html"
    sim.explore(q=1.0, p=0.0, steps=20, html=file)
    one = browser.new_page()
    one.goto(file.as_uri())
    one.wait_for_selector("html[data-ready=yes]")
    if not one.evaluate("navigator.gpu ? navigator.gpu.requestAdapter().then((a) => !!a) : false"):
        pytest.skip("this Chromium finds no WebGPU adapter")
    one.check("#gpu")
    one.wait_for_selector("#adapter[data-claims]")
    q = np.array([1e-40, 1.0, 1e-20])
    found, elsewhere, _ = one.evaluate(IN_PAGE, [3, np.stack([q, 0 * q], axis=1).ravel().tolist(), 50])
    assert found == sim.evolve(q=q, p=0 * q, steps=50).hash
    assert elsewhere == (0 if one.evaluate("page.adapter().switches.KEEPS_SMALL") else 2)
    one.close()
