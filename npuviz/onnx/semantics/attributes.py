"""Reads attributes of nodes, with defaults from the operator's schema."""

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
from onnx import defs, helper

from npuviz.program.graph import NEWEST_OPSET, Node

_LIKE = {
         "FusedConv": "Conv", "FusedGemm": "Gemm", "FastGelu": "Gelu", "BiasGelu": "Gelu",
         "SimplifiedLayerNormalization": "RMSNormalization"}  # fmt: skip
"""Operators of ONNX Runtime -> operator of the standard with the same attributes."""

_OWN: Mapping[str, Mapping[str, Any]] = {
    "Selu": {"alpha": 1.6732632423543772, "gamma": 1.0507009873554805},
    "SkipLayerNormalization": {"epsilon": 1e-12},
    "SkipSimplifiedLayerNormalization": {"epsilon": 1e-12},
}
"""Defaults that the standard's schemas lack (Ref: ONNX Runtime, ContribOperators.md) or store rounded."""


class Attributes:
    """Attributes by name; those that a node leaves out have the default of its operator set.

    given  attributes of the node
    A getter raises KeyError for an attribute that is neither given nor has a default.
    """

    def __init__(
        self, op_type: str, given: Mapping[str, Any], domain: str = "", opset: int = NEWEST_OPSET
    ) -> None:
        self.given = given
        self._defaults = _defaults(op_type, domain, opset)

    def __getitem__(self, name: str) -> Any:
        value = self.given.get(name)
        return self._defaults[name] if value is None else value

    def integer(self, name: str) -> int:
        """Return an integer."""
        return int(self[name])

    def real(self, name: str) -> float:
        """Return a number."""
        return float(self[name])

    def flag(self, name: str) -> bool:
        """Return an integer as bool."""
        return bool(self[name])

    def text(self, name: str, default: str | None = None) -> str:
        """Return a text; `default` is for attributes that may be absent."""
        value = self[name] if default is None else self.given.get(name, default)
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)

    def integers(self, name: str, default: list[int] | None = None) -> list[int]:
        """Return a list of integers; most lists have no default in schemas, since it would depend on a
        tensor's rank."""
        value = self[name] if default is None else self.given.get(name)
        return [int(item) for item in (default or [] if value is None else value)]

    def axis(self, rank: int) -> int:
        """Return the attribute `axis` for a tensor with `rank` dimensions, not negative."""
        return self.integer("axis") % max(1, rank)


def attributes_of(node: Node) -> Attributes:
    """Return the attributes of a node."""
    return Attributes(node.op_type, node.attributes, node.domain, node.opset)


@lru_cache(maxsize=512)
def _defaults(op_type: str, domain: str, opset: int) -> Mapping[str, Any]:
    """Return default values by name.

    For an operator that its operator set lacks, those of the newest standard.
    """
    name = _LIKE.get(op_type, op_type)
    if defs.has(name, min(opset, 1 << 20), domain):
        schema = defs.get_schema(name, min(opset, 1 << 20), domain)
    elif defs.has(name):
        schema = defs.get_schema(name)
    else:
        return _OWN.get(op_type, {})
    found = {
        key: _plain(helper.get_attribute_value(attribute.default_value))
        for key, attribute in schema.attributes.items()
        if attribute.default_value.name
    }
    return MappingProxyType({**found, **_OWN.get(op_type, {})})


def _plain(value: Any) -> Any:
    """Return a default as written in the schema's text: 1e-05, not the float32 next to it."""
    return float(str(np.float32(value))) if isinstance(value, float) else value
