"""What is one whole step of a program, from the user's states to the user's states, as expressions?"""

from __future__ import annotations

from tinyphysics.ir.uop import UOp, substitute
from tinyphysics.step import DT
from tinyphysics.tpir.program.isa import Pointer, Program, Register
from tinyphysics.tpir.program.symbolic import Symbolic, state_var


def composed(program: Program) -> dict[str, UOp]:
    """By the name of each state: `init`, one `step` and `final`, as an expression of the states, parameters and dt."""
    s = Symbolic(program)
    given = {
        state_var(program, k, 0): UOp.var(d.name, d.type.shape, d.type.dtype)
        for k, d in enumerate(program.states)
    }
    given |= {
        UOp.var(f"${p.name}", p.type.shape, p.type.dtype): UOp.var(p.name, p.type.shape, p.type.dtype)
        for p in program.params
    }
    given[UOp.var("$dt")] = DT
    names = {d.name: k for k, d in enumerate(program.states)}
    out: dict[str, UOp] = {}
    for number, section, i in program.numbered():
        if section == "energy":
            continue
        where = f"step {number} `{i}`"
        if i.op == "LOAD":
            pointer = i.args[0]
            assert isinstance(pointer, Pointer)
            s.env[i.dst] = state_var(program, names[pointer.name], 0)
        elif i.op == "STORE":
            assert isinstance(i.dst, Pointer) and isinstance(i.args[0], Register)
            out[i.dst.name] = s.env[i.args[0]]
        elif i.row.kind == "update":
            s.env[i.dst] = s.becomes(i, where)
        else:
            value = s.value(i, where)
            assert value is not None, f"{where} is no map of states"
            s.env[i.dst] = value
    return dict(zip(out, substitute(list(out.values()), given)))
