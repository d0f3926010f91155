"""Is every example in the gallery, with its picture and its time, and is the page what its tool writes?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tools_of import tool

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"


@pytest.fixture(scope="module")
def gallery():
    return tool("gallery")


def test_every_example_has_its_place_picture_and_time(gallery):
    names = {path.stem for path in (ROOT / "examples").glob("*.py")}
    assert set(gallery.ROWS) == names  # python tools/gallery.py NAME draws a new one
    assert {path.stem for path in gallery.HERE.glob("*.png")} == names
    assert set(json.loads(gallery.TIMES.read_text())) == names


def test_the_page_is_what_its_tool_writes(gallery):
    assert gallery.PAGE.read_text(encoding="utf-8") == gallery.page()  # python tools/gallery.py writes it


def test_pictures_are_small(gallery):
    sizes = [path.stat().st_size for path in gallery.HERE.glob("*.png")]
    assert max(sizes) < 60_000 and sum(sizes) < 2_000_000
    assert sum(path.stat().st_size for path in PICTURES.rglob("*.png")) < 4_000_000


@pytest.mark.all
@pytest.mark.parametrize("name", ["kepler", "channel_flow", "double_pendulum", "waves"])
def test_a_picture_can_be_drawn_again(gallery, name, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(gallery, "HERE", tmp_path)
    gallery.draw(name)
    assert (tmp_path / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
