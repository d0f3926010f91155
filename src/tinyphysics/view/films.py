"""How is a run shown as a film?  Its frames one after the other, as a page that plays, as a GIF or as an MP4.

A page carries its pictures and loads nothing. MP4 is written by ffmpeg, of the system or of the package imageio-ffmpeg.
"""

from __future__ import annotations

import base64
import html
import io
import math
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import animation, rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from tinyphysics import given
from tinyphysics.errors import BackendError, InputError, StoreError
from tinyphysics.system import System
from tinyphysics.trajectory import Trajectory
from tinyphysics.view.choice import choose_kind
from tinyphysics.view.scenes import Scene, scene

SECONDS = 8.0  # that a film lasts if nothing is asked for
MOST = {".html": 600, ".gif": 600, ".mp4": 20_000}  # pictures: the first two are kept whole in memory
SHORTEST = 0.02  # seconds that a picture of a GIF is shown: viewers slow down shorter ones
LONGEST = 655.35  # seconds, the same: its clock has 16 bits
COLOURS = 128  # of a picture in a page or a GIF
NEARLY_WHITE = 248

PLAYER = """<div class="tp-film" id="{name}" style="max-width:{width}px;font:13px sans-serif">
<img alt="{title}" style="width:100%;display:block" src="{first}">
<div style="display:flex;gap:.6em;align-items:center"><button type="button" aria-label="play or pause">❚❚</button>
<input type="range" min="0" max="{last}" value="0" aria-label="time" style="flex:1"></div>
<script>(function(){{
const box=document.getElementById("{name}"),pictures=[{pictures}],wait={wait};
const [image,button,slider]=["img","button","input"].map(x=>box.querySelector(x));
let k=0,timer=null;
function show(n){{k=n%pictures.length;image.src="data:image/png;base64,"+pictures[k];slider.value=k;}}
function play(){{timer=setInterval(()=>show(k+1),wait);button.textContent="❚❚";}}
function pause(){{clearInterval(timer);timer=null;button.textContent="▶";}}
button.onclick=()=>timer===null?play():pause();
slider.oninput=()=>{{pause();show(Number(slider.value));}};
play();}})();</script></div>
"""
PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title></head>
<body style="margin:1em auto;max-width:{width}px">
{player}</body></html>
"""


@dataclass(frozen=True, eq=False)
class Film:
    """The pictures of a run in time: `save("run.gif")` writes them, and a notebook plays them."""

    out: Trajectory
    title: str
    setup: Callable[[Figure], Scene]
    seconds: float
    fps: float
    dpi: float
    size: tuple[float, float]

    def __repr__(self) -> str:
        return f'<Film of {self.title}, {self.seconds:.3g} s: save("run.html"), .gif or .mp4 writes it>'

    def save(self, path: Any) -> Film:
        """Writes the film; the ending says what it is: .html, .gif or .mp4."""
        path = given.path("path", path, "run.html")
        write = {".html": self.write_page, ".gif": self.write_gif, ".mp4": self.write_mp4}.get(
            path.suffix.lower()
        )
        if write is None:
            raise InputError(
                f"`{path}` is not a film format that can be written",
                fix='Write "run.html", "run.gif" or "run.mp4".',
            )
        part = path.with_name(f"{path.stem}.partial{path.suffix}")
        try:
            write(part)
            part.replace(path)  # a reader never sees half a film
        except OSError as error:
            raise StoreError(
                f"`{path}` could not be written: {error.strerror or error}",
                fix="Choose a directory that exists and can be written to.",
            ) from error
        finally:
            part.unlink(missing_ok=True)
        return self

    def _repr_html_(self) -> str:
        return self.player()

    # --- when is which frame shown? -----------------------------------------------------------------
    def timing(self, suffix: str) -> tuple[Any, float]:
        """The frames to show, in order, and for how many seconds each is shown."""
        frames = len(self.out.t)
        count = max(2, min(round(self.seconds * self.fps), frames))
        wait = self.seconds / count
        if suffix == ".gif":  # its clock counts hundredths of a second
            wait = max(SHORTEST, round(100 * wait) / 100)
            count = max(2, round(self.seconds / wait))
            if wait > LONGEST:
                raise InputError(
                    f"each picture would be shown for {wait:.3g} s, and a .gif file allows {LONGEST:g}",
                    fix="Write fewer seconds=, or a larger speed=.",
                )
        if count > MOST[suffix]:
            raise InputError(
                f"the film would have {count:,} pictures, and a {suffix} file holds at most {MOST[suffix]:,}",
                fix=f"Write seconds={MOST[suffix] / self.fps:g}, a larger speed= or a smaller fps=.",
            )
        passed = np.abs(np.asarray(self.out.t, float) - float(self.out.t[0]))
        wanted = np.linspace(0.0, passed[-1], count)
        after = np.searchsorted(passed, wanted).clip(1, frames - 1)
        nearest = np.where(wanted - passed[after - 1] <= passed[after] - wanted, after - 1, after)
        return nearest, wait

    # --- drawing ------------------------------------------------------------------------------------
    def drawn(self) -> tuple[Figure, Scene]:
        fig = Figure(figsize=self.size, dpi=self.dpi, layout="constrained")
        FigureCanvasAgg(fig)
        shown = self.setup(fig)
        fig.suptitle(self.title, fontsize=11, color="#3c4048")
        shown.show(len(self.out.t) - 1)
        fig.canvas.draw()
        fig.set_layout_engine("none")  # else titles of changing length would move the axes
        return fig, shown

    def images(self, frames: Any) -> Iterator[Any]:
        """The pictures of some frames, in few colours; what does not move is drawn once."""
        fig, shown = self.drawn()
        for artist in shown.moving:
            artist.set_animated(True)
        canvas: Any = fig.canvas
        canvas.draw()
        still = canvas.copy_from_bbox(fig.bbox)

        def picture(k: int) -> Any:
            shown.show(k)
            canvas.restore_region(still)
            for artist in shown.moving:
                shown.ax.draw_artist(artist)
            return Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")

        some = np.concatenate([np.asarray(picture(int(frames[k]))) for k in (0, len(frames) // 2, -1)])
        palette = Image.fromarray(some).quantize(COLOURS)  # one for all: colours do not flicker
        entries = np.array(palette.getpalette()).reshape(-1, 3)
        entries[(entries > NEARLY_WHITE).all(1)] = 255  # the mean of many whites is grey
        palette.putpalette(entries.ravel().tolist())
        for k in frames:
            yield picture(int(k)).quantize(palette=palette, dither=Image.Dither.NONE)

    def player(self) -> str:
        frames, wait = self.timing(".html")
        texts = []
        for picture in self.images(frames):
            data = io.BytesIO()
            picture.save(data, "PNG")
            texts.append(base64.b64encode(data.getvalue()).decode("ascii"))
        return PLAYER.format(
            name=f"tp-film-{id(self):x}-{len(texts)}",
            title=html.escape(self.title),
            width=round(self.size[0] * self.dpi),
            first="data:image/png;base64," + texts[0],
            last=len(texts) - 1,
            pictures=",".join(f'"{text}"' for text in texts),
            wait=round(1000 * wait),
        )

    def write_page(self, path: Path) -> None:
        width = round(self.size[0] * self.dpi)
        page = PAGE.format(title=html.escape(self.title), width=width, player=self.player())
        path.write_text(page, encoding="utf-8")

    def write_gif(self, path: Path) -> None:
        frames, wait = self.timing(".gif")
        pictures = self.images(frames)
        next(pictures).save(
            path, "GIF", save_all=True, append_images=pictures, duration=round(1000 * wait), loop=0
        )

    def write_mp4(self, path: Path) -> None:
        program = ffmpeg()
        frames, wait = self.timing(".mp4")
        fig, shown = self.drawn()
        with rc_context({"animation.ffmpeg_path": program}):
            rate: Any = 1 / wait  # ffmpeg takes fractions
            writer = animation.FFMpegWriter(fps=rate, metadata={"title": self.title})
            try:
                with writer.saving(fig, str(path), self.dpi):
                    for k in frames:
                        shown.show(int(k))
                        writer.grab_frame()
            except (subprocess.CalledProcessError, BrokenPipeError) as error:
                raise BackendError(
                    f"ffmpeg could not write the film: {error}", fix='Write a GIF: out.animate("run.gif").'
                ) from error


def ffmpeg() -> str:
    """The program that writes MP4: of the system, else of the package imageio-ffmpeg."""
    found = shutil.which("ffmpeg")
    if found is not None:
        return found
    try:
        return str(import_module("imageio_ffmpeg").get_ffmpeg_exe())
    except (ImportError, RuntimeError):
        raise BackendError(
            "an MP4 film needs ffmpeg, which was not found on the PATH",
            fix='pip install imageio-ffmpeg; or write a GIF: out.animate("run.gif").',
        ) from None


def animate(
    out: Trajectory,
    system: System,
    path: Any = None,
    *,
    kind: str | None = None,
    x: Any = None,
    y: Any = None,
    z: Any = None,
    seconds: float | None = None,
    speed: float | None = None,
    trail: float | bool = 0.2,
    fps: float = 25.0,
    dpi: float = 100.0,
    size: tuple[float, float] = (5.4, 4.4),
) -> Film:
    """A film of the run; written at once if a path is given."""
    if out.metrics.get("members", 1) == 0:
        raise InputError("the ensemble has no members", fix="Run at least one.")
    if len(out.t) < 3:
        raise InputError(
            f"a film needs frames, and this run saved {len(out.t)}", fix="Pass save_every= to evolve()."
        )
    if seconds is not None and speed is not None:
        raise InputError("seconds= and speed= both set the speed of the film", fix="Give one of them.")
    for name, value in {"seconds": seconds, "speed": speed, "fps": fps, "dpi": dpi}.items():
        if value is not None and not (isinstance(value, (int, float)) and 0 < value < math.inf):
            raise InputError(f"{name}={value!r} is not a number above zero", fix=f"Write {name}=10.")
    if not isinstance(trail, (int, float)) or not 0 <= trail <= 1:
        raise InputError(
            f"trail={trail!r} is not a fraction of the run", fix="Write trail=0.2, True or False."
        )
    good = isinstance(size, (tuple, list)) and len(size) == 2
    if not good or not all(isinstance(s, (int, float)) and 0.5 <= s <= 100.0 for s in size):
        raise InputError(
            f"size={given.shown(size)} is not a width and a height in inches", fix="Write size=(5.4, 4.4)."
        )
    asked = {name: value for name, value in (("x", x), ("y", y), ("z", z)) if value is not None}
    chosen = "" if asked else choose_kind(out, system, kind)
    if asked and kind is not None:
        raise InputError("kind= and axes by name: both choose what is drawn", fix="Give one of them.")
    lasts = abs(float(out.t[-1]) - float(out.t[0])) / speed if speed else float(seconds or SECONDS)
    if not lasts > 0:
        raise InputError("no time passes in this run", fix="Give seconds=, or run longer.")
    film = Film(
        out,
        system.name.replace("_", " "),
        lambda fig: scene(fig, out, system, chosen, asked, float(trail)),
        lasts,
        float(fps),
        float(dpi),
        (float(size[0]), float(size[1])),
    )
    return film if path is None else film.save(path)
