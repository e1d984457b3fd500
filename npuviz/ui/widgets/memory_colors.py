"""One stable colour a tensor: the hue of its operator, told apart from its neighbours by lightness."""

from PySide6.QtGui import QColor

from npuviz.program.program import Program
from npuviz.ui.theme.theme import Theme

STEPS = (0, 14, -12, 26, -22)


class TensorColors:
    """Colours of the tensors of one program; weights and inputs take the operator that reads them."""

    def __init__(self, theme: Theme, program: Program | None) -> None:
        self._theme = theme
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
        """Colour of a tensor; -1 and unknown tensors are neutral."""
        found = self._known.get(tensor)
        if found is None:
            found = self._known[tensor] = self._make(tensor)
        return found

    def _make(self, tensor: int) -> QColor:
        op_type = self._op_types.get(tensor)
        if op_type is None:
            return self._theme.color("host")
        base = self._theme.operator_color(op_type)
        step = STEPS[tensor % len(STEPS)]
        return base.lighter(100 + step) if step >= 0 else base.darker(100 - step)
