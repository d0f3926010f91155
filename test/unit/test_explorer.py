"""The page that is one file: its kernel and its hash in node, and all of it in Chromium where that is here."""

import base64
import gzip
import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tinyphysics as tp
from tinyphysics.cli import load, main
from tinyphysics.errors import InputError
from tinyphysics.explorer.page import ASSETS, MOST, page
from tinyphysics.explorer.state import computes, state_of
from tinyphysics.runtime.api.compile import compile as compiled

GALLERY = sorted((Path(__file__).parents[2] / "examples" / "explore").glob("*.py"))
SOME = ("kepler",)
NODE = shutil.which("node")
FILES = [f if f.stem in SOME else pytest.param(f, marks=pytest.mark.all) for f in GALLERY]


def simulation(file, **more):
    found = load(str(file))
    options = {**found.options, **more}
    system = found.system.bind({})
    return (compiled(system, found.dt, **options) if found.dt else compiled(system, **options)), found


def in_node(program, given):
    """What a program prints that has Machine and the given data."""
    if NODE is None:
        pytest.skip("node is not installed")
    text = f"const M = require({json.dumps(str(ASSETS / 'machine.js'))});\n"
    text += "const data = JSON.parse(require('fs').readFileSync(0));\n"
    text += f"(async () => {{ {program} }})().catch((e) => {{ console.error(e); process.exit(1); }});"
    ran = subprocess.run(
        [NODE, "-e", text], input=json.dumps(given), capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


RUN = """
  const r = await M.Run.make(data.kernel, data.members);
  for (const [name, value] of Object.entries(data.given)) r.constants[r.index(name)] = value;
  r.begin(data.start);
  for (const n of data.blocks) { r.advance(n); if (data.look) r.look(); }
  r.look();
  console.log(JSON.stringify(r.hash()));
"""


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_the_page_of_a_gallery_system_has_the_hash_of_python_after_600_frames(file):
    sim, found = simulation(file)
    state = state_of(sim, found.start)
    assert all("why" not in level for level in state["levels"])
    assert len(page(state).encode()) <= MOST
    given = {
        "kernel": state["kernel"],
        "members": 1,
        "start": state["run"]["start"],
        "given": state["run"]["given"],
    }
    assert in_node(RUN, {**given, "blocks": [1] * 600, "look": True}) == state["run"]["hash"]
    assert state["run"]["hash"] == sim.evolve(**found.start, steps=600).hash


@pytest.mark.parametrize("precision", ["compensated", "dd", "lattice"])
def test_states_of_several_words_have_the_hash_of_python(precision):
    sim, found = simulation(GALLERY[[f.stem for f in GALLERY].index("kepler")], precision=precision)
    state = computes(sim, found.start, 70)
    assert [s[3] for s in state["kernel"]["states"]].count("word") == (0 if precision == "lattice" else 2)
    given = {"kernel": state["kernel"], "members": 1, "start": state["run"]["start"], "given": {}}
    assert in_node(RUN, {**given, "blocks": [30, 40], "look": True}) == state["run"]["hash"]
    assert state["run"]["hash"] == sim.evolve(**found.start, steps=70).hash


def test_float32_has_the_hash_of_python():
    sim, found = simulation(GALLERY[[f.stem for f in GALLERY].index("kepler")], precision="float32")
    state = state_of(sim, found.start, steps=70)
    given = {"kernel": state["kernel"], "members": 1, "start": state["run"]["start"], "given": {}}
    assert in_node(RUN, {**given, "blocks": [30, 40], "look": True}) == state["run"]["hash"]


def test_a_hundred_members_have_the_hash_of_python():
    sim, found = simulation(GALLERY[[f.stem for f in GALLERY].index("henon_heiles")])
    state = state_of(sim, found.start, steps=10)
    rng = np.random.default_rng(1)
    q, p = 0.1 * rng.standard_normal((2, 100, 2))
    start = np.concatenate([q, p], axis=1).ravel().tolist()
    given = {"kernel": state["kernel"], "members": 100, "start": start, "given": {}, "look": False}
    assert in_node(RUN, {**given, "blocks": [7, 500]}) == sim.evolve(q=q, p=p, steps=507).hash


@pytest.mark.all
def test_another_parameter_is_a_number_in_memory():
    """A slider changes the run from that step on, as a run in Python that is given it there."""
    sim, found = simulation(GALLERY[[f.stem for f in GALLERY].index("kepler")])
    state = state_of(sim, found.start, steps=10)
    program = """
      const r = await M.Run.make(data.kernel, 1);
      r.begin(data.run.start); r.advance(100); r.set("mu", 1.3); r.advance(50); r.look();
      console.log(JSON.stringify(r.hash()));
    """
    half = sim.evolve(**found.start, steps=100)
    assert in_node(program, state) == sim.evolve(q=half.final.q, p=half.final.p, mu=1.3, steps=50).hash


@pytest.mark.all
def test_the_energy_of_the_page_is_that_of_python():
    sim, found = simulation(GALLERY[[f.stem for f in GALLERY].index("double_pendulum")])
    state = computes(sim, found.start, 100)
    program = """
      const r = await M.Run.make(data.kernel, 1);
      r.begin(data.run.start); r.advance(100); r.look();
      console.log(JSON.stringify(Array.from(r.energies())));
    """
    end = sim.evolve(**found.start, steps=100).final
    (a, b), p = np.array(end.q), np.array(end.p)
    kinetic = (p[0] ** 2 / 2 + p[1] ** 2 - p[0] * p[1] * np.cos(a - b)) / (2 - np.cos(a - b) ** 2)
    energy, size = in_node(program, state)
    assert energy == pytest.approx(kinetic - 2 * np.cos(a) - np.cos(b), rel=1e-13)
    assert size >= abs(energy)


def test_blake2b_is_that_of_python():
    rng = np.random.default_rng(2)
    cases = [rng.bytes(n) for n in (0, 1, 3, 127, 128, 129, 255, 256, 1000, 65536)]
    program = "console.log(JSON.stringify(data.map((t) => M.hex(M.blake2b(Uint8Array.from(Buffer.from(t, 'hex')))))));"
    assert in_node(program, [c.hex() for c in cases]) == [
        hashlib.blake2b(c, digest_size=16).hexdigest() for c in cases
    ]


def test_a_nan_has_one_form_in_a_hash():
    from tinyphysics.runtime.state.digest import state_hash

    values = np.array([1.0, np.nan, -np.nan, -0.0])
    program = """
      const values = new Float64Array(Uint8Array.from(Buffer.from(data, "hex")).buffer);
      console.log(JSON.stringify(M.stateHash([{ type: "<f8", shape: [4], values }])));
    """
    assert in_node(program, values.tobytes().hex()) == state_hash({"q": values})


def test_the_page_names_nothing_outside_and_holds_what_it_shows():
    sim, found = simulation(GALLERY[[f.stem for f in GALLERY].index("kepler")])
    text = page(state_of(sim, found.start, steps=10))
    assert "default-src 'none'" in text
    assert (
        not re.findall(r"""(?:src|href)=["'](?!data:)""", text)
        and "://" not in text
        and "import(" not in text
    )
    packed = re.search(r'id="data">([^<]*)<', text)[1]
    assert json.loads(gzip.decompress(base64.b64decode(packed)))["name"] == "kepler"
    assert page(state_of(sim, found.start, steps=10)) == text  # the same file every time


def test_the_command_writes_the_page(tmp_path, capsys):
    file = next(f for f in GALLERY if f.stem == "double_well")
    assert main(["explore", str(file), "--html", str(tmp_path / "run.html"), "--set", "q=0.5"]) == 0
    assert "wrote" in capsys.readouterr().out and (tmp_path / "run.html").stat().st_size < MOST


def test_the_command_says_what_to_pass_to_it(tmp_path, capsys):
    (tmp_path / "bare.py").write_text(
        "import tinyphysics as tp\n\n\n@tp.hamiltonian\ndef H(q, p):\n    return p**2 + q**2\n"
    )
    assert (
        main(["explore", str(tmp_path / "bare.py"), "--html", str(tmp_path / "run.html"), "--set", "q=1"])
        == 2
    )
    told = capsys.readouterr().err
    assert "Pass --set p=1.0" in told and "sim.explore" not in told and not (tmp_path / "run.html").exists()
    for seconds in ("-1", "0", "nan"):
        assert main(["explore", str(tmp_path / "bare.py"), "--seconds", seconds, "--no-browser"]) == 2
        assert f"--seconds {seconds} is not a time" in capsys.readouterr().err


def test_wrong_calls_are_answered_in_words(tmp_path):
    sim, found = simulation(GALLERY[[f.stem for f in GALLERY].index("kepler")])
    with pytest.raises(InputError, match="`p` is not given"):
        sim.explore(q=[1.0, 0.0], html=tmp_path / "run.html")
    with pytest.raises(InputError, match="not the name of a page"):
        sim.explore(**found.start, html=tmp_path / "run.txt")
    with pytest.raises(tp.TinyPhysicsError, match="one start"):
        sim.explore(q=np.ones((3, 2)), p=[0.0, 1.0], html=tmp_path / "run.html")


def test_what_no_kernel_computes_is_shown_without_a_run():
    @tp.hamiltonian
    def chain(q: tp.Vec[2048], p: tp.Vec[2048]):
        return (p * p).sum() / 2 + ((tp.roll(q, -1) - q) ** 4).sum()

    state = state_of(tp.compile(chain, dt=0.05), {"q": np.zeros(2048), "p": np.zeros(2048)}, steps=2)
    assert state["kernel"] is None and "number by number" in state["why"]
    assert {level["name"] for level in state["levels"] if "lines" in level} >= {"source", "tpir"}


@pytest.fixture(scope="module")
def browser():
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("Chromium is not installed")
    with sync.sync_playwright() as p:
        b = p.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield b
        b.close()


@pytest.mark.all
@pytest.mark.parametrize("wide", [1280, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_in_chromium_the_page_asks_for_nothing_and_shows_the_hash(browser, tmp_path, wide, theme):
    sim, found = simulation(GALLERY[[f.stem for f in GALLERY].index("kepler")])
    file = sim.explore(**found.start, html=tmp_path / "run.html")
    context = browser.new_context(viewport={"width": wide, "height": 900}, offline=True)
    tab, asked, said = context.new_page(), [], []
    tab.on("request", lambda r: asked.append(r.url))
    tab.on("console", lambda m: said.append(m.text))
    tab.on("pageerror", lambda e: said.append(str(e)))
    tab.goto(f"{file.as_uri()}?theme={theme}")
    tab.wait_for_selector("html[data-ready=yes]")
    compiled_before = tab.evaluate("(() => { window.made = 0; const own = WebAssembly.instantiate;"
                                   " WebAssembly.instantiate = (...a) => { window.made++; return own.apply(WebAssembly, a); }; return window.made; })()")  # fmt: skip
    tab.click("#end")
    assert tab.get_attribute("#hash", "data-hash") == sim.evolve(**found.start, steps=600).hash
    assert "equals out.hash" in tab.inner_text("#hash")
    tab.click("#source .row >> nth=3")  # the potential
    assert "9" in tab.inner_text("#source .row.own i") and tab.locator("#leveltabs .n").count() >= 8
    tab.eval_on_selector(
        "#sliders input[data-name=mu]", "e => { e.value = 2; e.dispatchEvent(new Event('input')); }"
    )
    tab.click("#go")
    tab.wait_for_timeout(300)
    tab.eval_on_selector(
        "#sliders input[data-name=dt]", "e => { e.value = 2; e.dispatchEvent(new Event('input')); }"
    )
    tab.wait_for_selector("#stop:not(:empty)", timeout=10000)
    assert tab.inner_text("#stop").startswith("Stopped")
    assert compiled_before == 0 and tab.evaluate("window.made") == 0  # sliders compile nothing
    assert tab.evaluate("document.documentElement.scrollWidth") <= wide
    assert asked == [f"{file.as_uri()}?theme={theme}"] and said == []
    context.close()


@pytest.mark.all
@pytest.mark.parametrize("file", GALLERY, ids=lambda f: f.stem)
def test_in_chromium_every_gallery_page_shows_the_hash(browser, tmp_path, file):
    sim, found = simulation(file)
    made = sim.explore(**found.start, html=tmp_path / "run.html")
    tab, said = browser.new_page(), []
    tab.on("pageerror", lambda e: said.append(str(e)))
    tab.goto(made.as_uri())
    tab.wait_for_selector("html[data-ready=yes]")
    tab.click("#end")
    assert "equals out.hash" in tab.inner_text("#hash") and said == []
    tab.close()


FIRST = ("pendulum", "kepler", "henon_heiles", "double_pendulum", "fput", "standard_map")


@pytest.mark.all
@pytest.mark.parametrize("members", [1, 100])
@pytest.mark.parametrize("name", FIRST)
def test_ten_thousand_steps_in_chromium_have_the_hash_of_llvm(browser, tmp_path, name, members):
    sim, found = simulation(next(f for f in GALLERY if f.stem == name))
    rng = np.random.default_rng(3)
    start, values = {}, []
    for s in sim.system.states:
        shape = (members, *s.var.shape) if members > 1 else s.var.shape
        start[s.name] = np.asarray(found.start[s.name], float) + 0.01 * rng.standard_normal(shape) * (
            members > 1
        )
        values.append(np.reshape(start[s.name], (members, -1)))
    given = computes(sim, found.start, 2)
    (tmp_path / "empty.html").write_text(f"<script>{(ASSETS / 'machine.js').read_text()}</script>")
    tab = browser.new_page()
    tab.goto((tmp_path / "empty.html").as_uri())
    program = """async ([kernel, members, start]) => {
      const r = await Machine.Run.make(kernel, members);
      r.begin(start); for (let k = 0; k < 10; k++) r.advance(1000); r.look();
      return r.hash();
    }"""
    made = tab.evaluate(program, [given["kernel"], members, np.concatenate(values, axis=1).ravel().tolist()])
    tab.close()
    assert made == sim.evolve(**start, steps=10_000).hash


@pytest.mark.all
def test_a_click_on_a_line_of_tpir_lights_the_line_that_was_written(browser, tmp_path):
    sim, found = simulation(GALLERY[[f.stem for f in GALLERY].index("kepler")])
    made = sim.explore(**found.start, html=tmp_path / "run.html")
    lines = sim.lines("tpir")
    sites = {
        k: {site.line for site in line.user} for k, line in enumerate(lines) if line.is_code and line.user
    }
    one = {k: next(iter(s)) for k, s in sites.items() if len(s) == 1}
    chosen = [next(k for k, line in one.items() if line == wanted) for wanted in sorted(set(one.values()))]
    assert len(chosen) >= 2  # the kinetic and the potential energy
    tab = browser.new_page(viewport={"width": 1280, "height": 900})
    tab.goto(made.as_uri())
    tab.wait_for_selector("html[data-ready=yes]")
    tab.click("#leveltabs button:has-text('TP-IR')")
    for k in chosen:
        tall = tab.locator("#listing .row").first.bounding_box()["height"]
        tab.eval_on_selector("#listing", "(e, y) => { e.scrollTop = y; }", max(k - 5, 0) * tall)
        tab.wait_for_timeout(100)
        tab.locator("#listing .row").filter(has_text=lines[k].text.strip().split("  ;")[0]).first.click()
        tab.wait_for_timeout(50)
        lit = tab.evaluate(
            "() => [...document.querySelectorAll('#source .row.lit i, #source .row.own i')].map((e) => Number(e.textContent))"
        )
        assert one[k] in lit, (lines[k].text, lit)
    tab.close()


GOLDEN = Path(__file__).parent / "golden" / "run_view.json"


def seen_in(tab, name):
    """A canvas as 24 by 12 means of darkness: what a small shift of letters or of edges does not change."""
    return tab.evaluate(
        """(name) => {
          const c = document.getElementById(name), small = document.createElement("canvas");
          small.width = 24; small.height = 12;
          const g = small.getContext("2d");
          g.fillStyle = "#fff"; g.fillRect(0, 0, 24, 12); g.imageSmoothingQuality = "high";
          g.drawImage(c, 0, 0, 24, 12);
          const p = g.getImageData(0, 0, 24, 12).data, out = [];
          for (let k = 0; k < p.length; k += 4) out.push(Math.round((765 - p[k] - p[k + 1] - p[k + 2]) / 3));
          return out;
        }""",
        name,
    )


@pytest.mark.all
def test_the_view_of_a_known_run_is_the_golden_one(browser, tmp_path):
    """Kepler after 600 steps, on the three canvases; `python test/unit/golden_run_view.py` writes it anew."""
    sim, found = simulation(GALLERY[[f.stem for f in GALLERY].index("kepler")])
    made = sim.explore(**found.start, html=tmp_path / "run.html")
    tab = browser.new_page(viewport={"width": 1280, "height": 900}, device_scale_factor=1)
    tab.goto(f"{made.as_uri()}?theme=light")
    tab.wait_for_selector("html[data-ready=yes]")
    tab.click("#end")
    tab.wait_for_timeout(200)
    golden = json.loads(GOLDEN.read_text())
    for name, wanted in golden.items():
        now = np.array(seen_in(tab, name), float)
        off = np.abs(now - np.array(wanted, float))
        assert np.array(wanted).max() > 8 and off.mean() < 1.0 and off.max() < 24, name
    before = seen_in(tab, "state")
    tab.click("#again")
    tab.wait_for_timeout(200)
    assert (
        np.abs(np.array(seen_in(tab, "state"), float) - before).mean() > 0.3
    )  # another state is another picture
    tab.close()


@pytest.mark.all
@pytest.mark.parametrize("precision", ["float32", "compensated", "dd", "lattice"])
def test_in_chromium_every_precision_shows_the_hash_and_begins_at_a_click(browser, tmp_path, precision):
    sim, found = simulation(GALLERY[[f.stem for f in GALLERY].index("kepler")], precision=precision)
    made = sim.explore(**found.start, html=tmp_path / "run.html")
    tab, said = browser.new_page(viewport={"width": 1280, "height": 900}), []
    tab.on("pageerror", lambda e: said.append(str(e)))
    tab.goto(made.as_uri())
    tab.wait_for_selector("html[data-ready=yes]")
    tab.click("#end")
    assert tab.get_attribute("#hash", "data-hash") == sim.evolve(**found.start, steps=600).hash
    q = tab.evaluate("Array.from(window.page.trail())[0].point")
    assert q == pytest.approx([1.0, 0.0], abs=1e-6)
    tab.click("#phase", position={"x": 60, "y": 40})
    tab.wait_for_timeout(100)
    tab.select_option("#members", "100")
    tab.click("#end")
    tab.wait_for_timeout(100)
    assert said == []
    tab.close()
