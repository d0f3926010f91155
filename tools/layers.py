"""Where does everything live?  The layers, the rooms in them, and what may import what.

Imports point down this table: from a layer to those above it here, never between packages of one layer, and inside a
package from a room to those above it. test/unit/test_layers.py holds every import of the source against it,
tools/house_map.py draws it in docs/design.md, and tools/rooms.py makes the folders.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Room:
    """A folder of the source, or some of its files."""

    layer: int
    place: str  # the folder, as a module path after "tinyphysics."; "" is the root
    question: str  # that its files answer; the first line of a sub-room's __init__.py
    files: tuple[str, ...] = ()  # where only these files of the folder are the room

    @property
    def package(self) -> str:
        """What counts as one package between layers: the first folder, or the files of the root in one layer."""
        return self.place.partition(".")[0] or f"root {self.layer}"

    @property
    def name(self) -> str:
        """As it is written on pages: `rules/identities/`, or its files."""
        folder = self.place.replace(".", "/")
        return " ".join(f"{folder}/{f}.py".lstrip("/") for f in self.files) if self.files else f"{folder}/"


# fmt: off
ROOMS = (
    Room(0,  "", "What may every file use?", (
        "errors", "context", "util", "philox", "version", "given", "options", "tracebacks", "units", "up")),
    Room(1,  "ir", "What is an expression, and what does it mean on numbers?"),
    Room(2,  "", "What passes between the stages?", (
        "poisson", "turning", "user_bracket", "charged", "canonical", "constrained", "contact_form", "touching", "structure",
        "system", "facts", "plan", "line", "step", "target", "report", "loss", "charge", "trajectory")),
    Room(3,  "rules.identities", "Which rewrites keep a value?"),
    Room(3,  "rules.digits", "How does one compute with numbers of twice the digits?"),
    Room(3,  "rules.calculus", "What are the derivatives, series and matrices of expressions?"),
    Room(3,  "rules.equality", "Are two expressions one function, and where is it defined?"),
    Room(3,  "rules.formulas", "Which physics has a closed form?"),
    Room(3,  "rules.functions", "What does a machine compute that has no mathematics library?"),
    Room(4,  "front", "What does a user write?"),
    Room(4,  "analysis", "What can be shown of a system?"),
    Room(4,  "tpir.program", "What are the instructions, their text, their meaning, and how is a step written in them?"),
    Room(4,  "tpir.kernels", "What is a nest of loops over buffers, and what does it do, statement by statement?", (
        "loopir", "nests", "index", "at_index", "layout", "neighbours", "tree", "nest_kind", "ranges", "sums",
        "fourier_rows", "fourier_blocks", "fourier_vectors", "mesh_columns")),
    Room(4,  "tpir.kernels.kinds", "How does each kind of nest go over its indices?"),
    Room(4,  "tpir.kernels", "What does a machine compute: numbers, or nests of loops over buffers?"),
    Room(4,  "tpir.precision", "What is the same program in other numbers?"),
    Room(4,  "tpir.proof", "What does a program conserve: the walk, the weights, the certificate?"),
    Room(4,  "tpir.proof.readers", "Which instructions are the flow of which declared term?"),
    Room(4,  "tpir", "In which order do the readers look?", ("verifier",)),
    Room(5,  "flows.solvers", "How is a correction computed of a residual of whole arrays?"),
    Room(5,  "flows", "What kinds of sub-flow and of coordinates are there?"),
    Room(6,  "synth.coefficients", "What are the weights of a method, exactly?"),
    Room(6,  "synth.methods", "How do facts and weights become a step?"),
    Room(7,  "planner", "What goes with what?", ("conflicts",)),
    Room(7,  "planner.cost", "What does a program cost, and where does it run?"),
    Room(7,  "planner.methods", "What is a method?", ("method", "stability", "bibliography")),
    Room(7,  "planner.methods.families", "How is a step made of a method?  One file for each family."),
    Room(7,  "planner.methods", "Which methods are there, and what do they need?"),
    Room(7,  "planner.systems", "How is one system made of several?"),
    Room(7,  "planner.choice", "Which method and which step, and why not the others?"),
    Room(7,  "planner", "What does the report say?", ("explain", "summary")),
    Room(7,  "emit.text", "How is an expression, a line, a statement written in a language?"),
    Room(7,  "emit.scalar", "How is a program written out number by number?"),
    Room(7,  "emit.loops", "How does a nest lie on lanes or threads?"),
    Room(7,  "emit.kinds", "How are nests written whose speed is in the order of instructions?"),
    Room(7,  "emit.kinds.neighbours", "How are lists of neighbours made and read?"),
    Room(7,  "emit.kinds.trees", "How are trees of points made and walked?"),
    Room(7,  "emit.kinds.series", "How is a Taylor series in loops written?"),
    Room(7,  "emit.modules", "What are whole modules and complete programs?"),
    Room(7,  "device", "What do devices share: number types, protocols, the cache?", ("cache", "numbers", "protocols")),
    Room(7,  "device.host", "How does this processor run code?"),
    Room(7,  "device.cuda", "How are NVIDIA GPUs driven: memory and launches?"),
    Room(7,  "device.opencl", "How are OpenCL devices driven?"),
    Room(7,  "device.wasm", "How is WebAssembly made and run?"),
    Room(7,  "device.webgpu", "How are WebGPU adapters driven, and what does each of them round?"),
    Room(7,  "device.engines", "How does an engine run lanes, nests, series or the VM, on one device or several?"),
    Room(7,  "device.linear", "How is a matrix taken apart in double-double, for loops that are deleted?"),
    Room(7,  "view", "What does a run or a report look like?"),
    Room(7,  "physics", "Which systems are ready to use, in the user's language?"),
    Room(8,  "", "In which order do the stages of the compiler run?", ("pipeline",)),
    Room(9,  "runtime.state", "What is a run given, what does it keep and record?"),
    Room(9,  "runtime.storage", "How are runs kept in files?"),
    Room(9,  "runtime.engines", "Which engine runs a program?"),
    Room(9,  "runtime.stages", "How does a call of evolve become a trajectory?"),
    Room(9,  "runtime.measure", "What is measured before, in and after a run?"),
    Room(9,  "runtime.api", "What do users call?"),
    Room(10, "learn", "How is a run a layer of a library that differentiates?"),
    Room(10, "cluster", "How does a run use several machines?"),
    Room(10, "explorer", "Which windows onto a simulation are there?"),
    Room(11, "", "What do users import and type?", (
        "cli", "demo", "doctor", "explore_command", "explore_child", "kernel", "chaos", "fft", "hardbody", "plasma",
        "operators", "compat", "moved", "mypy_plugin", "script", "user_file",
        "__init__", "__main__")),
)
# fmt: on

# Imports that point up, and why they do: none. A test fails if one is added without a reason here.
UPWARD: dict[tuple[str, str], str] = {}

# What nouns ask of above, by the functions of up.py, which import it when they are called: (who answers, why).
UP = {
    "autopsy": ("runtime.measure.autopsy", "out.stopped.report() is a method of a noun, for users"),
    "compile": ("runtime.api.compile", "system.compile(dt) is a method of a noun, for users"),
    "elsewhere": ("cluster.machines", "sim.evolve(on=client) is a method of a simulation, for users"),
    "explore": ("explorer.open", 'sim.explore(html="run.html") is a method of a simulation, for users'),
    "widget": ("explorer.open", "sim.widget(q=1.0, p=0.0) is a method of a simulation, for users"),
    "in_slices": ("cluster.parareal", "sim.evolve(parallel=...) is a method of a simulation, for users"),
    "plot": (
        "runtime.api.pictures",
        "out.plot(), out.animate() and what notebooks show are methods of a noun",
    ),
    "quantity": ("runtime.api.quantities", 'out.quantity("q") is a method of a noun, for users'),
    "report": ("runtime.api.run_report", 'out.report("run.html") is a method of a noun, for users'),
    "statistics": ("physics.statistics", 'out.mean("x") is a method of a noun, for users'),
    "to_xarray": ("runtime.api.dataset", "out.to_xarray() is a method of a noun, for users"),
}
