"""A kernel for a GPU: the LLVM renderer's text in another frame, a thread for each chunk of members.

The threads of a grid go through the chunks side by side, each with all steps of a block of time in its registers. What a
member is does not depend on who computes it, so that neither the size of a grid nor that of its blocks changes a bit.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyphysics.emit.scalar.llvm import FunctionFrame, function
from tinyphysics.ir.uop import UOp
from tinyphysics.target import VectorShape
from tinyphysics.tpir.kernels.kernel import Section

TRIPLE = "nvptx64-nvidia-cuda"
HEAD = f'target triple = "{TRIPLE}"'
KERNEL = "define ptx_kernel void"
ATTRIBUTES = "attributes #0 = { nounwind }"
PLACES = ("tid", "ntid", "ctaid", "nctaid")
SPECIAL = {f"@llvm.nvvm.read.ptx.sreg.{s}.x": f"declare i32 @llvm.nvvm.read.ptx.sreg.{s}.x()" for s in PLACES}


WHERE = (
    *(
        line
        for s in PLACES
        for line in (
            f"  %{s}.32 = call i32 @llvm.nvvm.read.ptx.sreg.{s}.x()",
            f"  %{s} = zext i32 %{s}.32 to i64",
        )
    ),
    "  %block.first = mul i64 %ctaid, %ntid",
    "  %thread = add i64 %block.first, %tid",
    "  %grid = mul i64 %nctaid, %ntid",
)  # which thread this is of all, and how many there are


def frame(lanes: int, careful: bool) -> FunctionFrame:
    """Chunks in turn to the threads of a grid; carefully those alone that are marked."""
    opening = [
        *WHERE,
        f"  %own = mul i64 %thread, {lanes}",
        "  %mine = add i64 %begin, %own",
        f"  %stride.lanes = mul i64 %grid, {lanes}",
        "  %any = icmp slt i64 %mine, %end",
    ]
    begin = "marks" if careful else "chunk"  # a loop that watches has a `look` of its own
    head = [
        f"  br i1 %any, label %{begin}, label %exit",
        f"{begin}:",
        "  %lane = phi i64 [ %mine, %entry ], [ %lane.next, %next ]",
    ]
    if careful:
        head += [
            "  %mark.at = getelementptr i8, ptr %flags, i64 %lane",
            "  %mark = load i8, ptr %mark.at",
            "  %marked = icmp ne i8 %mark, 0",
            "  br i1 %marked, label %chunk, label %next",
            "chunk:",
        ]
    return FunctionFrame(KERNEL, tuple(opening), (), SPECIAL, tuple(head), "%stride.lanes", begin, True)


def module(
    parts: Sequence[tuple[Section, VectorShape]],
    params: Sequence[UOp],
    varying: Sequence[bool],
    marked: bool = True,
) -> str:
    """LLVM IR of some sections, a kernel each; careful ones are for members that are marked, or for all."""
    lines: list[str] = []
    declared: dict[str, str] = {}
    for f, shape in parts:
        text, wants = function(f, params, varying, shape, frame(shape.lanes, f.careful and marked))
        lines += text
        declared |= wants
    return "\n".join([HEAD, *declared.values(), *lines, ATTRIBUTES]) + "\n"
