"""What a Host call is assumed to cost: a fixed part, and the bytes it reads and writes."""

from npuviz.program.graph import Node
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import Tables


def host_cycles(spec: NeuronSpec, tables: Tables, node: Node) -> int:
    """Base cycles of a graph node on the Host. Assumed, see presets."""
    homes = {variable.tensor: variable.size_bytes for variable in tables.variables if variable.tensor >= 0}
    moved = sum(homes.get(tensor, 0) for tensor in (*node.inputs, *node.outputs) if tensor >= 0)
    return max(1, spec.to_cycles(spec.host_call_ns + moved / spec.host_bytes_per_ns))
