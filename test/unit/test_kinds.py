"""Kinds of nest: one file says all about one, and a kind that comes from elsewhere runs on every backend."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loops_on_numbers import LoopsOnNumbers
from ptx_on_host import OnHost
from test_loops import loops

import tinyphysics as tp
from tinyphysics.emit.text import print_c
from tinyphysics.ir.dtype import i64
from tinyphysics.ir.ops import Ops
from tinyphysics.ir.uop import UOp
from tinyphysics.runtime.engines.loaders import CLoops, LlvmLoops, numpy_loops
from tinyphysics.tpir.kernels import every_kind, loops as in_loops
from tinyphysics.tpir.kernels.every_kind import KINDS, registered
from tinyphysics.tpir.kernels.kinds.map import MAP
from tinyphysics.tpir.kernels.layout import long_axes
from tinyphysics.tpir.kernels.loopir import HI, LO, For, Function, Statement, Store, number
from tinyphysics.tpir.kernels.nest_kind import PlainKind, Task, Wanted
from tinyphysics.tpir.kernels.nests import LoopKernel, Nest, OnArrays
from tinyphysics.tpir.kernels.ranges import least

KINDS_FOLDER = Path(every_kind.kinds.__file__).parent
TILE = 8
COLUMN = UOp.var("@column", (), i64)


class Transposition(PlainKind):
    """A matrix that is stored the other way round, in tiles whose rows and columns both stay in the first cache."""

    name, rank, immediate = "transposition", 5, True

    def task(self, w: Wanted) -> Task | None:
        u = w.node
        if u.op is not Ops.PERMUTE or u.src[0] not in w.placed or len(long_axes(u.shape, w.components)) != 2:
            return None
        return Task(u, w.home, self, u.shape)

    def stores(self, *given: Any) -> list[Any]:
        return MAP.stores(*given)

    def evaluate(self, run: OnArrays, env: dict[UOp, Any]) -> None:
        MAP.evaluate(run, env)

    def ranged(self, nest: Nest, kernel: LoopKernel) -> Function:
        return self.tiled(nest, kernel, 1)

    def tiled(self, nest: Nest, kernel: LoopKernel, lanes: int, every: bool = False) -> Function:
        (row, column), (_, columns), (piece,) = nest.variables, nest.sizes, nest.pieces
        body: tuple[Statement, ...] = tuple(Store(s.buffer, s.plane, s.index, s.value) for s in piece.stores)
        inside = For(column, COLUMN, least(COLUMN + number(TILE), number(columns)), body, independent=True)
        return Function((For(COLUMN, number(0), number(columns), (For(row, LO, HI, (inside,)),), TILE),))

    def threaded(self, nest: Nest, kernel: LoopKernel) -> list[Function]:
        return MAP.threaded(nest, kernel)


@tp.map
def turned(z: tp.Array["n", "n"]):
    return z.T


@pytest.fixture
def with_it():
    def forget():
        in_loops._planned.cache_clear()
        in_loops._built.cache_clear()

    forget()
    with registered(Transposition()):
        yield
    forget()


def case(n: int):
    sim = tp.compile(turned, sizes={"n": n}, backend="python")
    return sim, dict(z=np.cos(np.arange(float(n * n)).reshape(n, n)))


FORMS = {
    "numpy": numpy_loops,
    "llvm": LlvmLoops,
    "four": lambda: LlvmLoops(width=4),
    "c": CLoops,
    "threads": OnHost,
    **{form: (lambda form=form: LoopsOnNumbers(form)) for form in ("ranged", "tiled", "threaded")},
}


@pytest.mark.requirement("S2-41")
@pytest.mark.parametrize("form", FORMS)
def test_a_kind_of_this_file_runs_on_every_backend(form, with_it):
    """It is recognised, evaluated by NumPy, printed as LLVM, C and threads of a GPU, and shared out to threads."""
    sim, state = case(37)
    (nest,) = in_loops.build_loops(sim.tpir).sections["step"].nests
    assert nest.kind == "transposition" and nest.extent == 37 and nest.items == 37 * 37
    assert str(nest).startswith("transposition @i0 < 37 x @i1 < 37")
    assert np.array_equal(loops(sim, FORMS[form](), state, {}, 3)["z"], state["z"].T)


def test_threads_share_the_range_of_a_new_kind(with_it):
    sim, state = case(1600)
    assert np.array_equal(loops(sim, LlvmLoops(), state, {}, 1, threads=2)["z"], state["z"].T)


def test_without_it_the_same_program_is_a_map():
    sim, state = case(37)
    assert [n.kind for n in in_loops.build_loops(sim.tpir).sections["step"].nests] == ["map"]
    assert np.array_equal(loops(sim, LlvmLoops(), state, {}, 1)["z"], state["z"].T)


def test_kinds_are_found_in_their_folder():
    """Each file has at least one, and each is in its place by its rank: a new file needs no entry anywhere."""
    files = {p.stem for p in KINDS_FOLDER.glob("*.py")} - {"__init__"}
    assert {type(k).__module__.rpartition(".")[2] for k in KINDS} == files
    assert [k.rank for k in KINDS] == sorted(k.rank for k in KINDS)
    assert len({k.name for k in KINDS}) == len(KINDS)


def test_no_table_outside_the_folder_lists_the_kinds():
    """What else names a kind is a pass or a tiling for that very kind: no file of the source names five of them."""
    names = {k.name for k in KINDS} - {"list", "tree", "map", "product", "call"}  # words of other tables, too
    for path in (KINDS_FOLDER.parents[2]).rglob("*.py"):
        if KINDS_FOLDER in path.parents:
            continue
        said = {n.value for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Constant)}
        assert len(names & {x for x in said if isinstance(x, str)}) < 3, path


def test_transforms_lines_and_scattered_rows_are_known_to_their_files_alone():
    """No printer, no engine and no other file of the loops names their operations, but for one weight: beside transforms more
    is worth storing (tpir/kernels/loops.py). Lists and trees are also made by code that is no nest."""
    rooms = [KINDS_FOLDER.parents[2] / room for room in ("emit", "device", "tpir/kernels")]
    named = {op: set() for op in (Ops.FOURIER, Ops.LINE, Ops.SCATTER)}
    for path in (p for room in rooms for p in room.rglob("*.py")):
        own = {n.attr for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Attribute)}
        for op, files in named.items():
            files |= {path.name} if op.name in own else set()
    named[Ops.FOURIER].discard("loops.py")
    assert named == {Ops.FOURIER: {"fourier.py"}, Ops.LINE: {"line.py"}, Ops.SCATTER: {"scatter.py"}}


def test_printing_c_walks_each_expression_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not change in a loop was walked anew for each of its nodes: 7,685 of them took 17 s to print."""
    visited = 0
    walk = print_c.toposort

    def counted(roots: Any, *more: Any) -> Any:
        nonlocal visited
        found = walk(roots, *more)
        visited += len(found)
        return found

    @tp.map
    def long(u: tp.Vec["n"], k: float = 0.5):
        x = k
        for _ in range(300):
            x = x * k + 0.25
        return u * x

    monkeypatch.setattr(print_c, "toposort", counted)
    sim = tp.compile(long, backend="c", sizes={"n": 64})
    text = sim.ir("c")
    assert visited < 40 * text.count("\n")


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
def test_an_expression_in_a_loop_may_be_deeper_than_pythons_stack(backend: str) -> None:
    @tp.map
    def long(u: tp.Vec["n"], k: float = 0.5):
        x = u
        for _ in range(400):
            x = x * k + 0.25
        return x

    out = tp.compile(long, backend=backend).evolve(u=np.linspace(0.0, 1.0, 64), steps=1)
    assert np.array_equal(out.final.u, np.full(64, 0.5))


def test_an_energy_that_is_nested_too_deeply_is_refused_in_words() -> None:
    @tp.hamiltonian
    def nested(q, p, k=0.5):
        x = q * p
        for _ in range(1_000):
            x = x * k + 0.25
        return p**2 / 2 + x**2

    with pytest.raises(tp.PlanError, match="nested so deeply"):
        tp.compile(nested, dt=0.01)


def test_equations_whose_taylor_series_are_too_long_take_a_pair() -> None:
    @tp.ode
    def nested(u: tp.Vec["n"], k: float = 0.5):
        x = u
        for _ in range(100):
            x = x * k + 0.25
        return -x

    sim = tp.compile(nested, dt=0.01, sizes={"n": 64})
    assert "dop853" in str(sim.explain())
