"""A kernel as LLVM IR for SPIR-V: the text of one lane in a frame of OpenCL, a work-item for each member.

LLVM's generator writes no contraction, and a fused operation only where the text has one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tinyphysics.emit.scalar.llvm import FunctionFrame, function
from tinyphysics.ir.uop import UOp
from tinyphysics.target import VectorShape
from tinyphysics.tpir.kernels.kernel import Section

TRIPLE = "spirv64v1.2-unknown-unknown"
PLACES = {
    f"@{name}": f"declare spir_func i64 @{name}(i32)"
    for name in ("_Z13get_global_idj", "_Z15get_global_sizej")
}
FRAME = FunctionFrame(
    "define spir_kernel void",
    (
        "  %own = call spir_func i64 @_Z13get_global_idj(i32 0)",
        "  %mine = add i64 %begin, %own",
        "  %stride.lanes = call spir_func i64 @_Z15get_global_sizej(i32 0)",
        "  %any = icmp slt i64 %mine, %end",
    ),
    (),
    PLACES,
    (
        "  br i1 %any, label %chunk, label %exit",
        "chunk:",
        "  %lane = phi i64 [ %mine, %entry ], [ %lane.next, %next ]",
    ),
    "%stride.lanes",
)


def module(sections: Sequence[Section], params: Sequence[UOp], varying: Sequence[bool]) -> str:
    """LLVM IR of some sections, a kernel each; all arrays are those of the host."""
    lines: list[str] = []
    declared: dict[str, str] = {}
    for f in sections:
        text, wants = function(f, params, varying, VectorShape(1, 1), FRAME)
        lines += text
        declared |= wants
    own = [re.sub(r"\bptr %", "ptr addrspace(1) %", line) for line in lines]
    return (
        "\n".join([f'target triple = "{TRIPLE}"', *declared.values(), *own, "attributes #0 = { nounwind }"])
        + "\n"
    )
