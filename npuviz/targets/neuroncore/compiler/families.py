"""Operator type -> how it is lowered: collected from the family modules."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from npuviz.program.graph import Node

if TYPE_CHECKING:
    from npuviz.targets.neuroncore.compiler.builder import Builder

FAMILIES = (
    "matmul",
    "gemm",
    "conv",
    "conv_transpose",
    "pool",
    "attention",
    "elementwise",
    "comparison",
    "cast",
    "reduction",
    "normalization",
    "softmax",
    "quantized",
    "scan",
    "random",
    "movement",
    "gather",
    "scatter",
    "resize",
    "selection",
    "generation",
)
"""Modules of this package that may have a table LOWERINGS; those that exist are used."""


class CannotLower(Exception):
    """The engines cannot run this node; the text says why."""


Lower = Callable[["Builder", Node], None]


def _modules() -> Iterator[object]:
    package = __name__.rpartition(".")[0]
    for family in FAMILIES:
        name = f"{package}.{family}"
        if find_spec(name) is not None:
            yield import_module(name)


@cache
def lowerings() -> Mapping[str, Lower]:
    """The lowering of every operator type that the engines have one for."""
    found: dict[str, Lower] = {}
    for module in _modules():
        table: Mapping[str, Lower] = getattr(module, "LOWERINGS", {})
        found.update(table)
    return found
