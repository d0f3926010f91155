"""Do curves become the right dots, and axes the right numbers?"""

import math

import pytest
from rich.console import Console

import tinyphysics as tp
from tinyphysics.view.canvas import Canvas, framed, labels, plain, same_scale, span_of, ticks
from tinyphysics.view.terminal import draw, draw_picture, draw_report, energy_picture, portrait

CIRCLE = [2 * math.pi * k / 200 for k in range(201)]


def text(renderable, width):
    console = Console(
        width=width, color_system=None, file=None, record=True, quiet=False, force_terminal=False
    )
    with console.capture() as captured:
        console.print(renderable)
    return captured.get()


# --- canvas -----------------------------------------------------------------------------------
def test_each_dot_of_a_cell_has_its_braille_bit():
    for column, row, bit in [(0, 0, 0x01), (1, 0, 0x08), (0, 3, 0x40), (1, 3, 0x80), (1, 1, 0x10)]:
        canvas = Canvas(1, 1, (0, 1), (0, 1))
        canvas.dot(column, row)
        assert canvas.character(0, 0) == chr(0x2800 | bit)


def test_the_corners_of_the_data_are_the_corners_of_the_canvas():
    canvas = Canvas(10, 5, (-1, 1), (0, 4))
    canvas.points([-1, 1, -1, 1], [0, 0, 4, 4])
    assert set(canvas.dots) == {(0, 0), (0, 9), (4, 0), (4, 9)}


def test_a_line_has_no_gaps():
    canvas = Canvas(30, 10, (0, 1), (0, 1))
    canvas.line((0, 0), (1, 0.7))
    assert {column for _, column in canvas.dots} == set(range(30))


def test_a_line_through_the_canvas_is_clipped_and_not_walked():
    canvas = Canvas(10, 10, (0, 1), (0, 1))
    canvas.line((-1e12, 0.5), (1e12, 0.5))
    assert {column for _, column in canvas.dots} == set(range(10))
    outside = Canvas(10, 10, (0, 1), (0, 1))
    outside.line((-1, 2), (2, 2.5))
    assert not outside.dots


def test_numbers_that_are_not_finite_are_gaps():
    canvas = Canvas(20, 5, (0, 3), (0, 1))
    canvas.curve([0, 1, 2, 3], [0.5, math.nan, math.inf, 0.5])
    assert not canvas.dots
    canvas.points([0, math.nan], [0.5, 0.5])
    assert len(canvas.dots) == 1


def test_a_circle_is_drawn_as_a_circle():
    x, y = same_scale((-1, 1), (-1, 1), 40, 10)
    assert (x[1] - x[0]) / (40 * 2) == pytest.approx((y[1] - y[0]) / (10 * 4))


@pytest.mark.parametrize(
    "values", [[], [math.nan], [0.0], [5.0, 5.0], [1e-320], [-1e308, 1e308], [1e6, 1e6 + 1e-6]]
)
def test_every_range_can_be_drawn(values):
    low, high = span_of(values)
    assert low < high and math.isfinite(high - low)
    canvas = Canvas(30, 6, (low, high), (low, high))
    canvas.curve(values, values)
    assert len(framed(canvas)) == 9


@pytest.mark.parametrize(
    ("r", "most", "expected"),
    [
        ((0.0, 1.0), 3, [0.0, 0.5, 1.0]),
        ((0.0, 1.0), 6, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        ((-1.3, 2.2), 5, [-1.0, 0.0, 1.0, 2.0]),
        ((0.0, 30.0), 7, [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0]),
        ((1e-5, 3e-5), 4, [1e-5, 2e-5, 3e-5]),
    ],
)
def test_ticks_are_round_numbers(r, most, expected):
    assert ticks(r, most) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.0, 0.5, 1.0], ["0.0", "0.5", "1.0"]),
        ([0.0, 5.0, 10.0], ["0", "5", "10"]),
        ([-2e-5, 0.0, 2e-5], ["-2e-5", "0", "2e-5"]),
        ([1.5e-5, 2e-5], ["1.5e-5", "2.0e-5"]),
        ([1e6, 3e6], ["1e6", "3e6"]),
        ([0.0], ["0"]),
    ],
)
def test_labels_show_the_same_digits(values, expected):
    assert labels(values) == expected


def test_labels_of_a_far_narrow_range_stay_apart():
    assert len(set(labels(ticks((100000.0, 100000.1), 5)))) > 2


def test_the_frame_of_a_circle():
    canvas = Canvas(20, 10, (-1.1, 1.1), (-1.1, 1.1))
    canvas.curve([math.cos(a) for a in CIRCLE], [math.sin(a) for a in CIRCLE])
    picture = plain(framed(canvas, "x", "y", ascii_only=True))
    assert picture.isascii()
    assert picture.splitlines()[0].strip() == "y"
    assert picture.splitlines()[-1].endswith(" x") and " 0 " in picture.splitlines()[-1]
    braille = plain(framed(canvas, "x", "y"))
    assert sum(0x2800 < ord(c) <= 0x28FF for c in braille) > 20


# --- what suits a system ----------------------------------------------------------------------
@tp.hamiltonian
def plane(q: tp.Vec[2], p: tp.Vec[2]):
    return p @ p / 2 + q @ q / 2


@tp.hamiltonian
def line(q, p):
    return p**2 / 2 + q**2 / 2


@tp.hamiltonian
def chain(q: tp.Vec[5], p: tp.Vec[5]):
    return p @ p / 2 + q @ q / 2


@tp.hamiltonian
def bodies(q: tp.Array[3, 2], p: tp.Array[3, 2]):
    return (p * p).sum() / 2 + (q * q).sum() / 2


@tp.hamiltonian(pairs=[("x", "px"), ("y", "py")])
def two_pairs(x, px, y, py):
    return px**2 / 2 + py**2 / 2 + x**2 / 2 + y**2 / 2


@tp.hamiltonian
def driven(q, p, t):
    return p**2 / 2 + q**2 / 2 - q * tp.cos(t)


@tp.forces
def pull(q):
    return -q


@tp.map
def shift(x, y):
    return y, x


def a_run(system, **start):
    return tp.compile(system, *([0.1] if system.kind != "map" else [])).evolve(
        **start, steps=30, save_every=1
    )


CASES = [
    (plane, dict(q=[1.0, 0.0], p=[0.0, 1.0]), "orbit", "q[0]", "q[1]", 1),
    (line, dict(q=1.0, p=0.0), "phase portrait", "q", "p", 1),
    (line, dict(q=[1.0, 2.0], p=0.0), "phase portrait", "q", "p", 2),
    (chain, dict(q=[1.0] * 5, p=[0.0] * 5), "q[0] over time", "t", "q[0]", 1),
    (bodies, dict(q=[[1.0, 0.0]] * 3, p=[[0.0, 1.0]] * 3), "3 orbits", "q[0]", "q[1]", 3),
    (two_pairs, dict(x=1.0, px=0.0, y=0.0, py=1.0), "x and y", "x", "y", 1),
    (pull, dict(q=1.0, p=0.0), "phase portrait", "q", "p", 1),
    (shift, dict(x=1.0, y=2.0), "x and y", "x", "y", 1),
]


@pytest.mark.parametrize(("system", "start", "title", "x", "y", "curves"), CASES)
def test_the_picture_suits_the_system(system, start, title, x, y, curves):
    out = a_run(system, **start)
    picture = portrait(out, system)
    assert (picture.title, picture.x_name, picture.y_name, len(picture.curves)) == (title, x, y, curves)
    assert title in text(draw(out, system, 80), 80)


def test_the_drawn_energy_error_is_the_drift():
    out = a_run(line, q=1.0, p=0.0)
    picture = energy_picture(out, line)
    assert abs(picture.curves[0][1]).max() == out.drift("energy")
    assert f"{out.drift('energy'):.1e}" in picture.title


def test_a_driven_system_shows_its_energy_and_no_error():
    assert energy_picture(a_run(driven, q=1.0, p=0.0), driven).y_name == "H"


def test_forces_and_maps_have_no_energy_to_draw():
    assert energy_picture(a_run(pull, q=1.0, p=0.0), pull) is None
    assert energy_picture(a_run(shift, x=1.0, y=2.0), shift) is None


def test_a_run_that_blew_up_is_drawn_as_far_as_it_went():
    @tp.hamiltonian
    def hill(q, p):
        return p**2 / 2 - q**4

    out = tp.compile(hill, 0.1).evolve(q=1.0, p=1.0, steps=500, save_every=1)
    assert out.stopped is not None
    assert "phase portrait" in text(draw(out, hill, 80), 80)


@pytest.mark.parametrize("width", [40, 80, 109, 110, 120, 200])
def test_no_line_is_wider_than_the_terminal(width):
    out = a_run(plane, q=[1.0, 0.0], p=[0.0, 1.0])
    lines = text(draw(out, plane, width), width).splitlines()
    assert max(map(len, lines)) <= width
    stacked = [k for k, row in enumerate(lines) if "energy error" in row or row.startswith("orbit")]
    assert len(stacked) == (1 if width >= 110 else 2)


def test_a_terminal_without_braille_gets_plain_characters():
    out = a_run(plane, q=[1.0, 0.0], p=[0.0, 1.0])
    assert draw_picture(portrait(out, plane), 60, 20, ascii_only=True).plain.isascii()


def test_the_reasons_of_a_report_wrap_in_their_own_column():
    report = tp.compile(line, 0.1).explain("full")
    lines = text(draw_report(report), 80).splitlines()
    assert max(map(len, lines)) <= 80
    words = " ".join(" ".join(lines).split())
    for section in report.sections:
        for row in section.rows:
            assert row.name in words
