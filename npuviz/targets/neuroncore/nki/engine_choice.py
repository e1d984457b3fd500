"""Which engine runs a call that leaves the choice open. Assumed, from what profiles of trn1 and trn2 show.

Trn1 (BENCH): copies out of PSUM and products and sums with numbers ran on Scalar, all else on Vector; GpSimd
did next to nothing. Trn2 (KDA): Vector and Scalar share them, as `reordering.py` plans, or else the one with
less to do takes them. What only GpSimd computes exactly goes there.
"""

from npuviz.targets.neuroncore.isa import Alu, Engine
from npuviz.targets.neuroncore.nki.record.steps import Step
from npuviz.targets.neuroncore.nki.record.tensors import PSUM
from npuviz.targets.neuroncore.spec import NeuronSpec

COMMUTATIVE = frozenset(
    (
        Alu.ADD,
        Alu.MULTIPLY,
        Alu.MAXIMUM,
        Alu.MINIMUM,
        Alu.EQUAL,
        Alu.NOT_EQUAL,
        Alu.LOGICAL_AND,
        Alu.LOGICAL_OR,
    )
)
"""Operators that need no swap of their operands."""
_ON_SCALAR = frozenset(
    (
        (Alu.MULTIPLY, Alu.ADD),
        (Alu.MULTIPLY, Alu.BYPASS),
        (Alu.ADD, Alu.BYPASS),
        (Alu.BYPASS, Alu.BYPASS),
    )
)


def engine_for(step: Step, spec: NeuronSpec) -> tuple[Engine, ...]:
    """Engines that may run a step, the wanted one first; empty where Scalar or Vector may."""
    asked = step.values.get("engine")
    if asked is not None:
        return (asked,)
    if step.op == "memset":
        is_psum = step.target is not None and step.target.buffer == PSUM  # which GpSimd does not write
        return (Engine.POOL,) if spec.has_pool and not is_psum else (Engine.DVE,)
    if step.op == "tensor_tensor":
        return (Engine.DVE, Engine.POOL)
    source = step.sources[0] if step.sources else None
    can_scalar = step.op == "tensor_copy" and source is not None and source.buffer == PSUM
    if step.op == "tensor_scalar":
        can_scalar = (step.values["op0"], step.values["op1"]) in _ON_SCALAR
    if not can_scalar:
        return (Engine.DVE, Engine.POOL)
    if "planned" in step.values:
        return (step.values["planned"], Engine.DVE, Engine.POOL)
    return (Engine.ACTIVATION, Engine.DVE, Engine.POOL) if spec.version <= 2 else ()
