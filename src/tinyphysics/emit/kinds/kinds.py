"""Which kinds of nest are written in LoopIR?  A new kind is a file beside this one, and a name here."""

from __future__ import annotations

from tinyphysics.emit.kinds.lanes import LANES_KIND
from tinyphysics.emit.kinds.product import PRODUCT
from tinyphysics.emit.kinds.scatter import SCATTER
from tinyphysics.emit.kinds.sequence import SEQUENCE
from tinyphysics.emit.loops.nest_kind import NestKind

KINDS: dict[str, NestKind] = {kind.name: kind for kind in (PRODUCT, SEQUENCE, LANES_KIND, SCATTER)}
