"""What does a processor need of a tree?  One module of LLVM IR, so that every backend has the same bits."""

from __future__ import annotations

from tinyphysics.emit.kinds.trees.tree_back import back
from tinyphysics.emit.kinds.trees.tree_walk import Writer, direct, keys, walk
from tinyphysics.emit.text.code import B, W
from tinyphysics.emit.text.code import module as module_of


def module() -> str:
    declared = {"compress": f"declare void @llvm.masked.compressstore.v8i64({W}, ptr, {B})"}
    declared["ones"] = "declare i8 @llvm.ctpop.i8(i8)"
    functions = []
    for write in (keys, direct, walk, back):
        c = Writer()
        functions.append(write(c))
        declared |= c.declared
    return module_of(functions, list(declared.values()))
