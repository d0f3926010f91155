"""A run in a notebook: the widget has the page, keeps it when it is saved, and Chromium computes the hash of Python in it."""

import json
import re
import shutil

import pytest

import tinyphysics as tp
from tinyphysics.errors import BackendError, InputError

pytest.importorskip("anywidget", reason="anywidget is not installed")

START = {"q": [1.0, 0.0], "p": [0.0, 1.2]}


@tp.hamiltonian
def kepler(q: tp.Vec[2], p: tp.Vec[2], mu: float = 1.0):
    return p @ p / 2 - mu / tp.sqrt(q @ q)


@pytest.fixture(scope="module")
def made():
    sim = tp.compile(kepler, dt=0.02)
    return sim.widget(**START, steps=60, height=500), sim.evolve(**START, steps=60).hash


def test_what_is_saved_with_a_notebook_has_the_whole_run(made):
    widget, _ = made
    saved = json.loads(json.dumps(widget.get_state()))
    assert saved["page"] == widget.page and saved["height"] == 500 and "export default" in saved["_esm"]
    assert len(widget.page) < 200_000 and not re.search(r"https?://", widget._esm)
    data, _ = widget._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    assert (
        data["text/html"].startswith('<iframe sandbox="allow-scripts"') and "<script" not in data["text/html"]
    )


def test_a_start_that_is_missing_and_a_package_that_is_missing_are_told(monkeypatch):
    import sys

    sim = tp.compile(kepler, dt=0.02)
    with pytest.raises(InputError, match=r"sim.widget\(q=..., p=...\)"):
        sim.widget(q=[1.0, 0.0])
    with pytest.raises(InputError, match="height"):
        sim.widget(**START, height="tall")
    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.delitem(sys.modules, "tinyphysics.explorer.widget", raising=False)
    with pytest.raises(BackendError, match="needs anywidget"):
        sim.widget(**START)


@pytest.mark.all
@pytest.mark.parametrize("saved", [False, True], ids=["the widget", "the HTML beside it"])
def test_in_chromium_it_computes_without_python(made, tmp_path, saved):
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("Chromium is not installed")
    widget, wanted = made
    notebook = tmp_path / "notebook.html"
    if saved:
        notebook.write_text(widget._repr_mimebundle_()[0]["text/html"])
    else:
        script = widget._esm.replace("export default", "const made =")
        text = f"""<!doctype html><div id="cell"></div><script type="module">{script}
        const values = {json.dumps({"page": widget.page, "height": 500}).replace("</", "<" + chr(92) + "/")};
        made.render({{ model: {{ get: (n) => values[n], on() {{}}, off() {{}} }}, el: document.getElementById("cell") }});
        </script>"""
        notebook.write_text(text)
    with sync.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=path, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1000, "height": 700})
        asked = []
        tab.on("request", lambda r: asked.append(r.url))
        tab.goto(notebook.as_uri())
        frame = tab.frame_locator("iframe")
        frame.locator("html[data-ready=yes]").wait_for(state="attached", timeout=20_000)
        frame.locator("#end").click()
        assert frame.locator("#hash").get_attribute("data-hash") == wanted
        assert "equals out.hash" in frame.locator("#hash").inner_text()
        assert [u for u in asked if not u.startswith(("file:", "about:", "data:", "blob:"))] == []
        browser.close()
