"""Lists the lowering of every operator type; operators that are not listed run on the Host."""

from collections.abc import Callable, Mapping

from npuviz.program.graph import Node
from npuviz.targets.systolic.compiler.lowering import Lowering
from npuviz.targets.systolic.compiler.operators import (
    attention,
    conv,
    dynamic,
    elementwise,
    gemm,
    movement,
    normalization,
    picking,
    places,
    pooling,
    quantized,
    recurrent,
    reduction,
    repeating,
)

Lower = Callable[[Lowering, Node], None]

LOWERINGS: Mapping[str, Lower] = {
    **gemm.LOWERINGS,
    **conv.LOWERINGS,
    **elementwise.LOWERINGS,
    **pooling.LOWERINGS,
    **normalization.LOWERINGS,
    **quantized.LOWERINGS,
    **dynamic.LOWERINGS,
    **reduction.LOWERINGS,
    **movement.LOWERINGS,
    **picking.LOWERINGS,
    **places.LOWERINGS,
    **repeating.LOWERINGS,
    **attention.LOWERINGS,
    **recurrent.LOWERINGS,
}
