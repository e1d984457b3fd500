"""Collect the tables {operator type: lowering} of the operator families."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType
from typing import Any

from npuviz.base.errors import SimulationError
from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder

DOMAINS = frozenset(("", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview.training", "com.microsoft"))
"""Operator domains of the operators in the tables."""


Lower = Callable[[Builder, Node], None]
LowerEpilogue = Callable[[Builder, Node, Sequence[Node]], None]


def _modules() -> Iterator[ModuleType]:
    package = import_module(f"{__package__}.operators")
    for module in walk_packages(package.__path__, f"{package.__name__}."):
        yield import_module(module.name)


def _collected(table: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for module in _modules():
        for operator, lower in getattr(module, table, {}).items():
            if operator in found:
                raise SimulationError(f"{operator} stands in two tables {table}, one in {module.__name__}")
            found[operator] = lower
    return found


@cache
def lowerings() -> Mapping[str, Lower]:
    """Return {operator type: lowering} of all families.

    A module of `operators` is a family when it has a table LOWERINGS.
    """
    return _collected("LOWERINGS")


@cache
def epilogues() -> Mapping[str, LowerEpilogue]:
    """Return {matrix operator type: lowering with following elementwise nodes} (tables EPILOGUES)."""
    return _collected("EPILOGUES")


def lowering_of(node: Node) -> Lower | None:
    """Return the lowering of a node, or None."""
    return lowerings().get(node.op_type) if node.domain in DOMAINS else None
