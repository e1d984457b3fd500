"""Operator type -> how it is lowered. The one list; an operator that is not here runs on the host."""

from collections.abc import Callable, Mapping

from npuviz.program.graph import Node
from npuviz.targets.systolic.compiler.operators import attention
from npuviz.targets.systolic.compiler.operators import conv
from npuviz.targets.systolic.compiler.operators import elementwise
from npuviz.targets.systolic.compiler.operators import gemm
from npuviz.targets.systolic.compiler.operators import movement
from npuviz.targets.systolic.compiler.operators import normalization
from npuviz.targets.systolic.compiler.operators import pooling
from npuviz.targets.systolic.compiler.operators import quantized
from npuviz.targets.systolic.compiler.operators import reduction
from npuviz.targets.systolic.compiler.lowering import Lowering

Lower = Callable[[Lowering, Node], None]

LOWERINGS: Mapping[str, Lower] = {
    **gemm.LOWERINGS,
    **conv.LOWERINGS,
    **elementwise.LOWERINGS,
    **pooling.LOWERINGS,
    **normalization.LOWERINGS,
    **quantized.LOWERINGS,
    **reduction.LOWERINGS,
    **movement.LOWERINGS,
    **attention.LOWERINGS,
}
