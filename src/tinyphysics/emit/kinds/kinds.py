"""Which kinds of nest are written in LoopIR?  A new kind is a file beside this one, and a name here.

Of `pairs` that is the plain text; its speed is in an order of instructions that files of their own write.
"""

from __future__ import annotations

from tinyphysics.emit.kinds.call import CALL
from tinyphysics.emit.kinds.fold import FOLD
from tinyphysics.emit.kinds.hand_over import LIST, TREE
from tinyphysics.emit.kinds.lanes import LANES_KIND
from tinyphysics.emit.kinds.map import MAP
from tinyphysics.emit.kinds.pairs import PAIRS
from tinyphysics.emit.kinds.product import PRODUCT
from tinyphysics.emit.kinds.scatter import SCATTER
from tinyphysics.emit.kinds.sequence import SEQUENCE
from tinyphysics.emit.loops.nest_kind import NestKind

ALL: tuple[NestKind, ...] = (MAP, SEQUENCE, LANES_KIND, SCATTER, PRODUCT, PAIRS, FOLD, LIST, TREE, CALL)
KINDS: dict[str, NestKind] = {kind.name: kind for kind in ALL}
