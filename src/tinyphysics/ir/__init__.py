"""The expression graph: nodes, rules over them, their text and their meaning on numbers."""

from tinyphysics.ir.dtype import DType as DType
from tinyphysics.ir.dtype import bool_ as bool_
from tinyphysics.ir.dtype import f32 as f32
from tinyphysics.ir.dtype import f64 as f64
from tinyphysics.ir.dtype import i32 as i32
from tinyphysics.ir.dtype import i64 as i64
from tinyphysics.ir.dtype import u32 as u32
from tinyphysics.ir.dtype import u64 as u64
from tinyphysics.ir.infix import infix as infix
from tinyphysics.ir.ops import Ops as Ops
from tinyphysics.ir.pattern import PatternMatcher as PatternMatcher
from tinyphysics.ir.pattern import UPat as UPat
from tinyphysics.ir.rewrite import Fired as Fired
from tinyphysics.ir.rewrite import graph_rewrite as graph_rewrite
from tinyphysics.ir.text import dump as dump
from tinyphysics.ir.text import parse as parse
from tinyphysics.ir.uop import Sites as Sites
from tinyphysics.ir.uop import UOp as UOp
from tinyphysics.ir.uop import as_uop as as_uop
from tinyphysics.ir.uop import elements as elements
from tinyphysics.ir.uop import substitute as substitute
from tinyphysics.ir.uop import toposort as toposort
from tinyphysics.ir.value import evaluate as evaluate
