"""Choose a fixed colour for each tensor: the hue of its operator, with one of five lightnesses."""

import numpy as np
from PySide6.QtGui import QColor

from npuviz.program.program import Program
from npuviz.ui.theme.theme import Theme

STEPS = (0, 14, -12, 26, -22)
INNER = 135
"""Factor in per cent by which the colour of bytes of no tensor is darker (lighter on a light theme)."""


class TensorColors:
    """Colours of the tensors of one program; weights and inputs take the operator that reads them."""

    def __init__(self, theme: Theme, program: Program | None) -> None:
        self._theme = theme
        self._program = program
        self._op_types: dict[int, str] = {}
        if program is not None:
            graph = program.graph
            for node in reversed(graph.nodes):
                for tensor in (*node.inputs, *node.outputs):
                    if tensor >= 0:
                        self._op_types[tensor] = node.op_type
            for node in graph.nodes:
                for tensor in node.outputs:
                    self._op_types[tensor] = node.op_type
        self._known: dict[int, QColor] = {}

    def color(self, tensor: int) -> QColor:
        """Return the colour of a tensor; a neutral one for -1 and unknown tensors."""
        found = self._known.get(tensor)
        if found is None:
            found = self._known[tensor] = self._make(tensor)
        return found

    def of_bytes(self, tensor: int, instruction: int) -> QColor:
        """Return the colour of bytes: of their tensor, else of the operator whose instruction wrote them."""
        if tensor >= 0 or instruction < 0:
            return self.color(tensor)
        node = self.nodes_of(np.array([instruction], dtype=np.int64))[0]
        return self.of_node(int(node))

    def of_node(self, node: int) -> QColor:
        """Return the colour of an operator's bytes that belong to no tensor; a neutral one for no
        operator.
        """
        if self._program is None or not 0 <= node < len(self._program.graph.nodes):
            return self._theme.color("host")
        base = self._theme.operator_color(self._program.graph.nodes[node].op_type)
        return base.darker(INNER) if self._theme.is_dark else base.lighter(INNER)

    def nodes_of(self, instructions: np.ndarray) -> np.ndarray:
        """Return the operators of instructions (int64), -1 if unknown."""
        if self._program is None:
            return np.full(len(instructions), -1, dtype=np.int32)
        return self._program.listing.nodes_of(instructions)

    def _make(self, tensor: int) -> QColor:
        op_type = self._op_types.get(tensor)
        if op_type is None:
            return self._theme.color("host")
        base = self._theme.operator_color(op_type)
        step = STEPS[tensor % len(STEPS)]
        return base.lighter(100 + step) if step >= 0 else base.darker(100 - step)
