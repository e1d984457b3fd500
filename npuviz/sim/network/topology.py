"""Build topologies of networks: which output leads to which input, and the latency of each link.

Inputs and outputs of router r are r * ports + port. Ref: BOOK networks/fly.cpp, kncube.cpp,
flatfly_onchip.cpp; port numbers matter, because the allocators rotate over them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from npuviz.base.errors import TargetError
from npuviz.sim.network import records_kernels as fk

MAX_NODES = 4096

TOPOLOGIES = {
    "dest_tag_fly": fk.TOPOLOGY_FLY,
    "dim_order_mesh": fk.TOPOLOGY_MESH,
    "dor_mesh": fk.TOPOLOGY_MESH,
    "dim_order_torus": fk.TOPOLOGY_TORUS,
    "ran_min_flatfly": fk.TOPOLOGY_FLATFLY,
}
""""routing function_topology" -> code of the kernels."""


@dataclass(frozen=True, slots=True)
class Topology:
    """Routers, and the links between them and the nodes.

    targets    for each output of a router, then for each node: the input that it leads to, or inputs + node
    latencies  cycles of each link
    places     (column, row) of each router in a drawing
    """

    name: str
    code: int
    num_nodes: int
    num_routers: int
    ports: int
    radix: int
    dimensions: int
    targets: tuple[int, ...]
    latencies: tuple[int, ...]
    places: tuple[tuple[int, int], ...]
    concentration: int = 1
    router_columns: int = 1
    node_columns: int = 1
    node_rows: int = 1


def build_topology(routing: str, values: Mapping[str, int | float | str]) -> Topology:
    """Build the topology of a description. Raises TargetError with the rule that is broken."""
    code = TOPOLOGIES[routing]
    radix, dimensions = _size(values, "k"), _size(values, "n")
    if dimensions > 16 or radix**dimensions > MAX_NODES:
        raise TargetError(f"network: k = {radix}, n = {dimensions}: at most {MAX_NODES} nodes (k to the n)")
    is_real = int(values["use_noc_latency"]) == 1
    if code == fk.TOPOLOGY_FLY:
        return _fly(radix, dimensions)
    if code == fk.TOPOLOGY_FLATFLY:
        return _flatfly(radix, dimensions, values, is_real)
    return _cube(radix, dimensions, code, is_real)


def _size(values: Mapping[str, int | float | str], name: str) -> int:
    value = values[name]
    if not isinstance(value, int) or not 1 <= value <= MAX_NODES:
        raise TargetError(f"network: {name} = {value}; expected a whole number from 1 to {MAX_NODES}")
    return value


def _fly(radix: int, stages: int) -> Topology:
    """Build a k-ary n-fly: n columns of k x k switches; with n = 1 one crossbar."""
    nodes = radix**stages
    rows = nodes // radix
    inputs = stages * nodes
    targets: list[int] = []
    for stage in range(stages):
        for output in range(nodes):
            if stage == stages - 1:
                targets.append(inputs + output)
                continue
            row, port = divmod(output, radix)
            # The link swaps the port with the digit of the row that the next stage routes by.
            shift = radix ** (stages - stage - 2)
            digit = row // shift % radix
            row += (port - digit) * shift
            targets.append((stage + 1) * nodes + row * radix + digit)
    targets.extend(range(nodes))
    places = tuple((stage, row) for stage in range(stages) for row in range(rows))
    name = f"fly k={radix} n={stages}"
    latencies = (1,) * len(targets)
    code = fk.TOPOLOGY_FLY
    return Topology(name, code, nodes, stages * rows, radix, radix, stages, tuple(targets), latencies, places)


def _cube(radix: int, dimensions: int, code: int, is_real: bool) -> Topology:
    """Build a k-ary n-cube: per dimension an output up and one down, then the node.
    Links of a torus are folded."""
    nodes = radix**dimensions
    ports = 2 * dimensions + 1
    is_mesh = code == fk.TOPOLOGY_MESH
    if not is_mesh and radix < 2:
        raise TargetError("network: a torus needs k of 2 or more")
    inputs = nodes * ports
    latency = 1 if is_mesh or not is_real else 2
    targets: list[int] = []
    latencies: list[int] = []
    for node in range(nodes):
        for dimension in range(dimensions):
            step = radix**dimension
            digit = node // step % radix
            up = node + (step if digit < radix - 1 else -(radix - 1) * step)
            down = node - (step if digit > 0 else -(radix - 1) * step)
            # A link up from here enters the next router by its lower port.
            targets += [up * ports + 2 * dimension + 1, down * ports + 2 * dimension]
            latencies += [latency, latency]
        targets.append(inputs + node)
        latencies.append(1)
    targets.extend(node * ports + 2 * dimensions for node in range(nodes))
    latencies.extend([1] * nodes)
    if dimensions == 1:
        places = tuple((node, 0) for node in range(nodes))
    else:
        # Dimension 0 runs to the right, dimension 1 down; planes of higher ones lie side by side.
        plane = radix * radix
        places = tuple((node // plane * radix + node % radix, node % plane // radix) for node in range(nodes))
    name = f"{'mesh' if is_mesh else 'torus'} k={radix} n={dimensions}"
    return Topology(
        name, code, nodes, nodes, ports, radix, dimensions, tuple(targets), tuple(latencies), places
    )


def _flatfly(radix: int, dimensions: int, values: Mapping[str, int | float | str], is_real: bool) -> Topology:
    """Build a flattened butterfly of k x k routers, c nodes each,
    all linked within a row and within a column."""
    concentration, columns, rows = _size(values, "c"), _size(values, "xr"), _size(values, "yr")
    routers = radix * radix
    if dimensions != 2 or values["x"] != radix or values["y"] != radix or radix < 2:
        raise TargetError(
            f"network: flatfly with k = {radix}, n = {dimensions}, x = {values['x']}, y = {values['y']}; "
            "expected n = 2 and x = y = k, k of 2 or more"
        )
    if concentration != columns * rows or columns != rows:
        raise TargetError(
            f"network: flatfly with c = {concentration}, xr = {columns}, yr = {rows}; "
            "expected xr = yr and c = xr * yr"
        )
    nodes = routers * concentration
    if nodes > MAX_NODES:
        raise TargetError(f"network: flatfly of {nodes} nodes; at most {MAX_NODES}")
    ports = concentration + 2 * (radix - 1)
    inputs = routers * ports
    targets = [0] * (inputs + nodes)
    latencies = [1] * (inputs + nodes)
    for router in range(routers):
        for port, (node, length) in enumerate(_clients(router, radix, columns)):
            targets[router * ports + port] = inputs + node
            targets[inputs + node] = router * ports + port
            latencies[router * ports + port] = latencies[inputs + node] = length if is_real else 1
    used = [concentration] * routers  # inputs are numbered in the order in which links are made
    for router in range(routers):
        x, y = router % radix, router // radix
        others = [y * radix + other for other in range(radix) if other != x]
        others += [other * radix + x for other in range(radix) if other != y]
        for port, other in enumerate(others, concentration):
            length = columns * abs(x - other % radix) + rows * abs(y - other // radix)
            targets[router * ports + port] = other * ports + used[other]
            latencies[router * ports + port] = length if is_real else 1
            used[other] += 1
    return Topology(
        f"flatfly k={radix} c={concentration}",
        fk.TOPOLOGY_FLATFLY,
        nodes,
        routers,
        ports,
        radix,
        2,
        tuple(targets),
        tuple(latencies),
        tuple((router % radix, router // radix) for router in range(routers)),
        concentration,
        radix,
        columns,
        rows,
    )


def _clients(router: int, radix: int, columns: int) -> list[tuple[int, int]]:
    """Return (node, length of its link) by port: nodes are numbered by rows over the whole chip.

    The length is the distance from the middle of the router's clients, as BookSim estimates it.
    """
    x_router, y_router = router % radix, router // radix
    is_odd = columns % 2 == 1
    x_length = y_length = -(columns // 2)
    clients: list[tuple[int, int]] = []
    for y in range(columns):
        for x in range(columns):
            if not is_odd:
                x_length, y_length = x_length or 1, y_length or 1
            length = 1 + max(0, abs(x_length) - 1) + max(0, abs(y_length) - 1)
            y_length += 1
            if y_length > columns // 2:
                y_length = -(columns // 2)
                x_length += 1
            node = radix * columns * (columns * y_router + y) + columns * x_router + x
            clients.append((node, length))
    return clients
