"""Is the map of the house in the docs the one of the source?"""

from __future__ import annotations

from tools_of import tool


def test_the_map_on_the_page_is_the_map_of_today():
    """Else: python tools/house_map.py --write."""
    map_ = tool("house_map")
    assert map_.PAGE.read_text(encoding="utf-8") == map_.page()


def test_every_file_is_counted_once():
    map_ = tool("house_map")
    files = [p for p in map_.SOURCE.rglob("*.py") if p.name != "__init__.py"]
    assert sum(map(map_.files, map_.ROOMS)) == len(files) + 1  # __init__.py of the package itself
