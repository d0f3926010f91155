"""TP-IR: programs that still show the physics; their text, their proof and their meaning."""

from tinyphysics.tpir.program import vm as vm
from tinyphysics.tpir.program.isa import Instruction as Instruction
from tinyphysics.tpir.program.isa import Program as Program
from tinyphysics.tpir.program.lower import lower as lower
from tinyphysics.tpir.program.text import parse as parse
from tinyphysics.tpir.verifier import Certificate as Certificate
from tinyphysics.tpir.verifier import verify as verify
