"""The pictures of the tutorials, drawn by their own blocks: `figure = out.plot()` becomes the next picture of the page.

python tools/tutorial_pictures.py [docs/tutorial_field.md ...]   needs matplotlib; writes docs/pictures/tutorial_*.png
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
sys.path.insert(0, str(Path(__file__).parent))

from docs import ROOT, blocks, run_block  # noqa: E402

PICTURE = re.compile(r"!\[[^\]]*\]\((pictures/\w+\.png)\)")


def draw(page: Path) -> None:
    text, namespace = page.read_text(encoding="utf-8"), dict[str, object]()
    lines = text.splitlines()
    for b in blocks(text):
        if b.language != "python" or b.skip is not None:
            continue
        namespace.pop("figure", None)
        run_block(b, page.name, namespace)
        if (figure := namespace.get("figure")) is None:
            continue
        found = next((m[1] for line in lines[b.line - 1 :] if (m := PICTURE.search(line))), None)
        if found is None:
            raise SystemExit(f"{page.name}:{b.line}: this block draws a figure, and no picture follows it")
        figure.savefig(page.parent / found, dpi=80)  # type: ignore[attr-defined]
        print(page.parent / found)


if __name__ == "__main__":
    for name in sys.argv[1:] or sorted((ROOT / "docs").glob("tutorial_*.md")):
        draw(Path(name))
