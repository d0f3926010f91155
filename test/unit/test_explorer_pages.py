"""The explorer's gallery in the docs: pages that are made when the docs are built."""

import re
import xml.dom.minidom
from pathlib import Path

import pytest
from tools_of import tool

from tinyphysics.explorer.page import MOST

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pages():
    return tool("explorer_pages")


def test_the_page_of_the_docs_lists_twenty_systems_with_their_questions(pages):
    text = pages.listing()
    assert text.count("<figure>") == len(pages.files()) == 20 and text.count("?") >= 20
    assert pages.MARK in (ROOT / "docs" / "explorer_gallery.md").read_text()
    assert "explore/kepler.html?show=run" in (ROOT / "docs" / "index.md").read_text()


def made(pages, folder, monkeypatch, names):
    monkeypatch.setattr(pages, "files", lambda: [pages.SYSTEMS / f"{name}.py" for name in names])
    return pages.write(folder)


def test_a_page_and_its_picture_are_small_and_ask_for_nothing(pages, tmp_path, monkeypatch):
    sizes = made(pages, tmp_path, monkeypatch, ["kepler"])
    assert sizes["kepler"] <= MOST
    drawn = (tmp_path / "kepler.svg").read_text()
    assert xml.dom.minidom.parseString(drawn).documentElement.tagName == "svg" and len(drawn) < 40_000
    numbers = [float(x) for x in re.findall(r"[\d.]+(?=,)", drawn)]
    assert min(numbers) >= 0 and max(numbers) <= pages.WIDE


@pytest.mark.all
def test_all_twenty_pages_are_made(pages, tmp_path):
    sizes = pages.write(tmp_path)
    assert len(sizes) == 20 and max(sizes.values()) <= MOST


@pytest.mark.all
@pytest.mark.parametrize("wide", [1280, 390])
def test_in_chromium_a_frame_shows_the_run_alone_and_it_runs(pages, tmp_path, monkeypatch, wide):
    import shutil

    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("Chromium is not installed")
    made(pages, tmp_path, monkeypatch, ["kepler"])
    home = tmp_path / "home.html"
    home.write_text('<iframe src="kepler.html?show=run&amp;go=1" style="width:100%;height:600px"></iframe>')
    with sync.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=path, args=["--no-sandbox"])
        tab = browser.new_context(viewport={"width": wide, "height": 800}, offline=True).new_page()
        tab.goto(home.as_uri())
        frame = tab.frame_locator("iframe")
        frame.locator("html[data-ready=yes]").wait_for(state="attached", timeout=20_000)
        first = frame.locator("#clock").inner_text()
        tab.wait_for_function("(t) => document.querySelector('iframe') && true", arg=first)
        for _ in range(100):
            if frame.locator("#clock").inner_text() != first:
                break
            tab.wait_for_timeout(50)
        assert frame.locator("#clock").inner_text() != first  # it runs by itself
        assert frame.locator("#state").is_visible() and not frame.locator("#left").is_visible()
        assert not frame.locator("#middle").is_visible()
        browser.close()
