"""Show a flit-level network as a fabric: states, loads, buffers and flits, read from a root state on demand.

An element is a router at its place, except that a crossbar has a single router: its elements
are its nodes, laid out on a grid.
"""

from collections.abc import Sequence
from math import isqrt

import numpy as np

from npuviz.program.instruction import DetailTable
from npuviz.sim import fabric
from npuviz.sim.network import records_kernels as fk
from npuviz.sim.network.flit_network import FlitNetwork

IDLE, MOVING, HELD, UNTAKEN = range(4)
STATES = (
    fabric.ElementState("idle", "idle"),
    fabric.ElementState("passing flits on", "compute"),
    fabric.ElementState("held back: no buffer ahead", "wait-queue"),
    fabric.ElementState("packets wait to be taken", "wait-empty"),
)
_VC_STATES = ("idle", "routing", "waits for a VC", "owns an output VC")
_WINDOW = 2 << fk.EPOCH_SHIFT


class FlitFabric:
    """Implements the fabric protocols for a network at word `net` of a state.

    node_names        name of the unit at each node ("Core[0]", "DRAM[3]"); nodes beyond the list are unused
    cycles_per_tick   base cycles of the machine per network cycle
    """

    def __init__(self, network: FlitNetwork, node_names: Sequence[str], cycles_per_tick: float) -> None:
        self._network = network
        self._names = list(node_names)
        self._ratio = cycles_per_tick
        topology = network.config.topology
        self._ports = topology.ports
        self._is_crossbar = topology.num_routers == 1
        if self._is_crossbar:
            columns = isqrt(max(0, topology.num_nodes - 1)) + 1
            places = [(node % columns, node // columns) for node in range(topology.num_nodes)]
        else:
            places = list(topology.places)
        self._places = places
        self._at = {place: index for index, place in enumerate(places)}
        columns = max(column for column, _ in places) + 1
        rows = max(row for _, row in places) + 1
        self.shape = fabric.FabricShape(
            columns,
            rows,
            fabric.Area(0, 0, columns, rows),
            STATES,
            load_cycles=max(1, round(_WINDOW * cycles_per_tick)),
            element="node" if self._is_crossbar else "router",
            word="flit",
            hop_cycles=5 * cycles_per_tick,
        )
        """Size, legend and words of the fabric."""
        self._nodes_of: list[list[int]] = [[] for _ in places]
        outputs = network.num_outputs
        targets = np.array(topology.targets, dtype=np.int64)
        for node in range(topology.num_nodes):
            router = int(targets[outputs + node]) // self._ports
            self._nodes_of[node if self._is_crossbar else router].append(node)
        self._owners, self._sides = self._directions(targets)

    def _directions(self, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return, for every output of a router, its element and the fabric port that it leaves by."""
        topology, outputs = self._network.config.topology, self._network.num_outputs
        owners = np.zeros(outputs, dtype=np.int64)
        sides = np.zeros(outputs, dtype=np.int64)
        is_cube = topology.code in (fk.TOPOLOGY_MESH, fk.TOPOLOGY_TORUS)
        for output in range(outputs):
            router, port = divmod(output, self._ports)
            target = int(targets[output])
            owners[output] = router
            if target >= outputs:
                sides[output] = fabric.RAMP
                if self._is_crossbar:
                    owners[output] = target - outputs
            elif is_cube and port < 4:
                sides[output] = (fabric.EAST, fabric.WEST, fabric.SOUTH, fabric.NORTH)[port]
            else:
                (column, row), (to_column, to_row) = self._places[router], self._places[target // self._ports]
                across, down = to_column - column, to_row - row
                if abs(across) >= abs(down):
                    sides[output] = fabric.EAST if across > 0 else fabric.WEST
                else:
                    sides[output] = fabric.SOUTH if down > 0 else fabric.NORTH
        return owners, sides

    def _grid(self, values: np.ndarray, area: fabric.Area) -> np.ndarray:
        """Arrange values per element as (rows, columns, ...) of an area; places without an element are 0."""
        whole = np.zeros((self.shape.rows, self.shape.columns, *values.shape[1:]), dtype=values.dtype)
        for (column, row), value in zip(self._places, values, strict=True):
            whole[row, column] = value
        part = whole[area.row : area.row + area.rows, area.column : area.column + area.columns]
        return np.ascontiguousarray(part)

    # --- whole areas -----------------------------------------------------------------------------------

    def element_states(self, state: np.ndarray, net: int, area: fabric.Area) -> np.ndarray:
        """Return the state of every element of an area, (rows, columns) uint8 indices into STATES."""
        inputs = self._inputs(state, net)
        busy = inputs[:, fk.INPUT_VC.count] > 0
        ovs = self._network.table(state, net, fk.NET.output_vcs).reshape(-1, fk.OUTPUT_VC.num_words)
        full = ovs[:, fk.OUTPUT_VC.count] >= self._network.config.buffer
        active = inputs[:, fk.INPUT_VC.state] == fk.VC_ACTIVE
        held = busy & active & full[np.where(active, inputs[:, fk.INPUT_VC.out], 0)]
        nodes = self._nodes(state, net)
        waiting = (nodes[:, fk.NODE.ready] != 0) | (nodes[:, fk.NODE.ejecting] != 0)
        if self._is_crossbar:
            busy, held = (rows.reshape(len(nodes), -1).any(axis=1) for rows in (busy, held))
            busy |= nodes[:, fk.NODE.count] > 0
        else:
            busy, held = (rows.reshape(len(self._places), -1).any(axis=1) for rows in (busy, held))
            waiting = np.array([waiting[own].any() if own else False for own in self._nodes_of])
        codes = np.where(busy, MOVING, IDLE)
        codes = np.where(waiting, UNTAKEN, codes)
        return self._grid(np.where(held, HELD, codes).astype(np.uint8), area)

    def link_loads(self, state: np.ndarray, net: int, tick: int, area: fabric.Area) -> np.ndarray:
        """Return how busy each side was in the last ticks up to `tick`, (rows, columns, NUM_PORTS)
        uint8 shares.

        If several links leave on one side, the busiest counts.
        """
        recent = self._links(state, net)[: self._network.num_outputs, fk.LINK.recent]
        behind = (tick >> fk.EPOCH_SHIFT) - (recent >> 32)
        before, now = recent >> 16 & 0xFFFF, recent & 0xFFFF
        flits = np.where(behind == 0, before + now, np.where(behind == 1, now, 0))
        span = min(tick + 1, (1 << fk.EPOCH_SHIFT) + (tick & ((1 << fk.EPOCH_SHIFT) - 1)) + 1)
        shares = np.minimum(255, -(-flits * 255 // max(1, span)))
        loads = np.zeros((len(self._places), fabric.NUM_PORTS), dtype=np.uint8)
        np.maximum.at(loads, (self._owners, self._sides), shares.astype(np.uint8))
        return self._grid(loads, area)

    def queue_fill(self, state: np.ndarray, net: int, area: fabric.Area) -> np.ndarray:
        """Return how full the fullest buffer of every element is, (rows, columns) uint8; 255 is full."""
        fills = self._inputs(state, net)[:, fk.INPUT_VC.count].reshape(len(self._places), -1).max(axis=1)
        shares = np.minimum(255, fills * 255 // self._network.config.buffer)
        return self._grid(shares.astype(np.uint8), area)

    # --- one element -------------------------------------------------------------------------------------

    def glances(self, state: np.ndarray, net: int, area: fabric.Area) -> dict[tuple[int, int], fabric.Glance]:
        """Describe what the elements of an area do now, by their (column, row); an empty place is idle."""
        codes = self.element_states(state, net, area).tolist()
        counts = self._inputs(state, net)[:, fk.INPUT_VC.count].reshape(len(self._places), -1)
        waiting, buffers = self._nodes(state, net)[:, fk.NODE.count], counts.sum(axis=1).tolist()
        room, limit = counts.shape[1] * self._network.config.buffer, self._network.config.source_limit
        found: dict[tuple[int, int], fabric.Glance] = {}
        for row in range(area.rows):
            for column in range(area.columns):
                place = area.column + column, area.row + row
                element, code = self._at.get(place), codes[row][column]
                if element is None:
                    found[place] = fabric.Glance(IDLE, detail="nothing here")
                    continue
                nodes = self._nodes_of[element]
                queued = int(waiting[nodes].sum())
                levels = (
                    fabric.Level("input buffers", buffers[element], room),
                    fabric.Level("source queues", queued, max(1, len(nodes)) * limit),
                )
                names = ", ".join(self._name(node) for node in nodes)
                found[place] = fabric.Glance(code, names, STATES[code].name, levels)
        return found

    def element_details(self, state: np.ndarray, net: int, column: int, row: int) -> tuple[DetailTable, ...]:
        """Return tables of the links, the buffers and the nodes of one element now."""
        element = self._at.get((column, row))
        if element is None:
            return ()
        tables = [self._link_table(state, net, element), self._buffer_table(state, net, element)]
        if self._nodes_of[element]:
            tables.append(self._node_table(state, net, element))
        return tuple(tables)

    def nodes_at(self, column: int, row: int) -> tuple[int, ...]:
        """Return the nodes that belong to a place."""
        element = self._at.get((column, row))
        return () if element is None else tuple(self._nodes_of[element])

    def place_of_node(self, node: int) -> tuple[int, int] | None:
        """Return the place of the element that a node belongs to."""
        for place, own in zip(self._places, self._nodes_of, strict=True):
            if node in own:
                return place
        return None

    def _link_table(self, state: np.ndarray, net: int, element: int) -> DetailTable:
        links = self._links(state, net)
        rows = [
            (
                self._end_of(int(link[fk.LINK.to])),
                f"{int(link[fk.LINK.latency])}",
                f"{int(link[fk.LINK.flits])}",
            )
            for link in links[: self._network.num_outputs][self._owners == element]
        ]
        return DetailTable("Links out", ("To", "Latency", "Flits so far"), tuple(rows))

    def _buffer_table(self, state: np.ndarray, net: int, element: int) -> DetailTable:
        vcs = self._network.config.num_vcs
        inputs = self._inputs(state, net).reshape(len(self._places), -1, fk.INPUT_VC.num_words)[element]
        rows: list[tuple[str, ...]] = []
        for index in np.flatnonzero(inputs[:, fk.INPUT_VC.count]):
            item = inputs[index]
            code = int(item[fk.INPUT_VC.state])
            text = _VC_STATES[code]
            if code == fk.VC_ACTIVE:
                output, vc = divmod(int(item[fk.INPUT_VC.out]), vcs)
                text = f"to output {output % self._ports}, VC {vc}"
            port, own_vc = divmod(int(index), vcs)
            port_text = "" if self._is_crossbar else f"input {port}, "
            rows.append((f"{port_text}VC {own_vc}", f"{int(item[fk.INPUT_VC.count])}", text))
        return DetailTable("Buffers", ("VC", "Flits", "State"), tuple(rows))

    def _node_table(self, state: np.ndarray, net: int, element: int) -> DetailTable:
        nodes = self._nodes(state, net)
        vcs = self._network.config.num_vcs
        waiting = self._network.table(state, net, fk.NET.node_queues).reshape(
            -1, vcs, fk.NODE_QUEUES.num_words
        )
        rows = tuple(
            (
                self._name(node),
                f"{int(nodes[node, fk.NODE.count])}",
                f"{int(waiting[node, :, fk.NODE_QUEUES.packets].sum())}",
            )
            for node in self._nodes_of[element]
        )
        return DetailTable("Nodes", ("Node", "Flits to send", "Packets to take"), rows)

    def _end_of(self, target: int) -> str:
        outputs = self._network.num_outputs
        if target >= outputs:
            return self._name(target - outputs)
        column, row = self._places[target // self._ports]
        return self.shape.label(column, row)

    def _name(self, node: int) -> str:
        return self._names[node] if node < len(self._names) else f"node {node} (unused)"

    # --- flits ---------------------------------------------------------------------------------------------

    def words(self, state: np.ndarray, net: int, tick: int, area: fabric.Area) -> np.ndarray:
        """Return the flits on links and in buffers of an area, as rows of WORD_DTYPE;
        `tick` is the newest cycle.

        The id of a flit is its packet's: 1048576 * network cycle of its entry + source node.
        """
        rows: list[tuple[int | bool, ...]] = []
        wheel = self._network.table(state, net, fk.NET.wheel)
        links = self._links(state, net)
        back = self._network.table(state, net, fk.NET.back)
        outputs = self._network.num_outputs
        feeders = {int(row[fk.LINK.to]): index for index, row in enumerate(links[:outputs])}
        for ahead in range(1, len(wheel) + 1):
            arrival = tick + ahead
            for flit, target in self._chain(state, net, int(wheel[arrival & (len(wheel) - 1)])):
                link = int(back[target]) if target < outputs else feeders[target]
                start = arrival - int(links[link, fk.LINK.latency]) - 1
                if link >= outputs:  # from a node into its router
                    element, port = self._element_of_node(link - outputs), fabric.INJECT
                else:
                    element, port = int(self._owners[link]), int(self._sides[link])
                rows.append(self._row(state, net, flit, element, port, start, arrival, False))
        inputs = self._inputs(state, net)
        per_element = len(inputs) // len(self._places)
        for index in np.flatnonzero(inputs[:, fk.INPUT_VC.count]):
            item = inputs[index]
            port = fabric.RAMP
            if int(item[fk.INPUT_VC.state]) == fk.VC_ACTIVE:
                port = int(self._sides[int(item[fk.INPUT_VC.out]) // self._network.config.num_vcs])
            for flit, _ in self._chain(state, net, int(item[fk.INPUT_VC.head])):
                element = int(index) // per_element
                rows.append(self._row(state, net, flit, element, port, tick, -1, True))
        found = np.array(rows, dtype=fabric.WORD_DTYPE)
        inside = (found["column"] >= area.column) & (found["column"] < area.column + area.columns)
        inside &= (found["row"] >= area.row) & (found["row"] < area.row + area.rows)
        return found[inside]

    def _chain(self, state: np.ndarray, net: int, flit: int) -> list[tuple[int, int]]:
        """Return the flits of a list, each with its target: (flit, input or node where it arrives)."""
        found: list[tuple[int, int]] = []
        pool = fk.NET(state, net).pool
        while flit != fk.NIL:
            word = int(fk.FLIT(state, pool, flit).next)
            found.append((flit, word & fk.LOW))
            flit = word >> 32
        return found

    def _row(
        self,
        state: np.ndarray,
        net: int,
        flit: int,
        element: int,
        port: int,
        start: int,
        arrival: int,
        waits: bool,
    ) -> tuple[int | bool, ...]:
        row = fk.FLIT(state, fk.NET(state, net).pool, flit)
        word, born = int(row.word), int(row.born)
        source = word >> fk.SOURCE_SHIFT & fk.NODE_FIELD
        here, origin = self._places[element], self._places[self._element_of_node(source)]
        kind = word >> fk.KIND_SHIFT & 3
        is_control = kind in (fk.READ_REQUEST, fk.WRITE_REPLY)
        begin = int(start * self._ratio)
        end = -1 if arrival < 0 else max(begin + 1, round(arrival * self._ratio))
        data = int(row.payload) & 0xFFFF_FFFF
        identity = (born << 20) | source
        return (identity, -1, is_control, waits, data, *here, port, begin, end, *origin)

    def _element_of_node(self, node: int) -> int:
        if self._is_crossbar:
            return node
        topology = self._network.config.topology
        return topology.targets[self._network.num_outputs + node] // self._ports

    # --- tables ---------------------------------------------------------------------------------------

    def _inputs(self, state: np.ndarray, net: int) -> np.ndarray:
        return self._network.table(state, net, fk.NET.input_vcs).reshape(-1, fk.INPUT_VC.num_words)

    def _links(self, state: np.ndarray, net: int) -> np.ndarray:
        return self._network.table(state, net, fk.NET.links).reshape(-1, fk.LINK.num_words)

    def _nodes(self, state: np.ndarray, net: int) -> np.ndarray:
        return self._network.table(state, net, fk.NET.node_table).reshape(-1, fk.NODE.num_words)
