"""A systolic machine with the detailed network, whose state it shows."""

from collections.abc import Sequence

import numpy as np

from npuviz.program.instruction import DetailTable
from npuviz.program.program import Program
from npuviz.sim.fabric import Area, FabricShape, Glance, WordPath
from npuviz.sim.network.fabric import FlitFabric
from npuviz.sim.network.flit_network import FlitNetwork
from npuviz.targets.systolic.kernels import records as sk
from npuviz.targets.systolic.machine.machine import SystolicMachine
from npuviz.targets.systolic.spec import SystolicSpec


class NetworkedMachine(SystolicMachine):
    """Fulfils HasFabric, HasElements, HasQueueFill and HasWords of npuviz.sim.fabric."""

    def __init__(self, spec: SystolicSpec, program: Program) -> None:
        super().__init__(spec, program)
        assert spec.flits is not None
        names = node_names(spec)
        self._periods = (spec.core_period_ps, spec.noc_period_ps)
        ratio = spec.noc_period_ps / spec.core_period_ps
        self._fabric = FlitFabric(FlitNetwork(spec.flits), names, ratio)
        units = self.description.units
        self._units_of_node = [
            tuple(unit.id for unit in units if unit.name.split(".")[0] == name.split(".")[0])
            for name in names
        ]

    @property
    def fabric(self) -> FabricShape:
        """The network as a grid."""
        return self._fabric.shape

    def element_states(self, area: Area) -> np.ndarray:
        """Return (rows, columns) uint8: index into the states of the shape."""
        return self._fabric.element_states(self._words, self._net, area)

    def link_loads(self, area: Area) -> np.ndarray:
        """Return (rows, columns, NUM_PORTS) uint8: share of the time each side sent a flit lately."""
        core, noc = self._periods
        tick = max(int(self._words[sk.CHIP.noc_last]), self.cycle * core // noc)
        return self._fabric.link_loads(self._words, self._net, tick, area)

    def queue_fill(self, area: Area) -> np.ndarray:
        """Return (rows, columns) uint8: fill of the fullest buffer."""
        return self._fabric.queue_fill(self._words, self._net, area)

    def glances(self, area: Area) -> dict[tuple[int, int], Glance]:
        """Describe what the routers and nodes of an area do now."""
        return self._fabric.glances(self._words, self._net, area)

    def element_details(self, column: int, row: int) -> Sequence[DetailTable]:
        """Describe links, buffers and nodes of a router."""
        return self._fabric.element_details(self._words, self._net, column, row)

    def units_of_element(self, column: int, row: int) -> tuple[int, ...]:
        """Return the units of the cores and channels at a router."""
        nodes = self._fabric.nodes_at(column, row)
        known = (self._units_of_node[node] for node in nodes if node < len(self._units_of_node))
        return tuple(dict.fromkeys(unit for units in known for unit in units))

    def element_of_unit(self, unit: int) -> tuple[int, int] | None:
        """Return the place of the first node of a unit's core or channel."""
        for node, units in enumerate(self._units_of_node):
            if unit in units:
                return self._fabric.place_of_node(node)
        return None

    def words(self, area: Area) -> np.ndarray:
        """Return the flits on links and in buffers now."""
        tick = int(self._words[sk.CHIP.noc_last])
        return self._fabric.words(self._words, self._net, tick, area)

    def word_path(self, word: int) -> WordPath | None:
        """Return None: the path of a flit is not recorded."""
        return None

    @property
    def _words(self) -> np.ndarray:
        return self._engine.state

    @property
    def _net(self) -> int:
        return int(self._engine.state[sk.CHIP.net])


def node_names(spec: SystolicSpec) -> list[str]:
    """Name what is at each node of the network: ports of cores, then DRAM channels."""
    ports = spec.config.icnt_injection_ports_per_core
    names = [
        f"Core[{core}]" if ports == 1 else f"Core[{core}].port{port}"
        for core in range(spec.num_cores)
        for port in range(ports)
    ]
    return names + [f"DRAM[{channel}]" for channel in range(spec.config.dram_channels)]
