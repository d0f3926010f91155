"""Writes test/unit/golden/run_view.json, the golden view of a known run: python test/unit/golden_run_view.py"""

import json
import shutil
import tempfile
from pathlib import Path

if __name__ == "__main__":
    from playwright.sync_api import sync_playwright
    from test_explorer import GALLERY, GOLDEN, seen_in, simulation

    sim, found = simulation(next(f for f in GALLERY if f.stem == "kepler"))
    made = sim.explore(**found.start, html=Path(tempfile.mkdtemp()) / "run.html")
    with sync_playwright() as p:
        b = p.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = b.new_page(viewport={"width": 1280, "height": 900}, device_scale_factor=1)
        tab.goto(f"{made.as_uri()}?theme=light")
        tab.wait_for_selector("html[data-ready=yes]")
        tab.click("#end")
        tab.wait_for_timeout(200)
        GOLDEN.write_text(
            json.dumps({name: seen_in(tab, name) for name in ("state", "phase", "energy")}) + "\n"
        )
        b.close()
