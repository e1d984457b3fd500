"""Networks of flits: cycles counted by hand, and whole runs against what BookSim's own code did with them.

DELIVERIES are digests of (cycle, node, packet) of every delivery, made by BookSim (commit 1d69c9d of
PSAL-POSTECH/booksim) with the packets of `draw_packets`.
"""

import hashlib

import numpy as np
import pytest

from npuviz.base.errors import TargetError
from npuviz.formats.onnxim.booksim import parse_booksim_config
from npuviz.sim.fabric import EAST, RAMP, SOUTH, Area
from npuviz.sim.network import records_kernels as fk
from npuviz.sim.network.fabric import HELD, IDLE, STATES, FlitFabric
from npuviz.sim.network.flit_network import FlitNetwork, check_nodes, flit_config
from tests.sim.network.replay_kernels import PACKET, replay

BYTES = (8, 32, 32, 8)
BASE = """
use_map = 0
flit_size = 64
vc_buf_size = 64
input_buffer_size = 256
ejection_buffer_size = 64
boundary_buffer_size = 64
"""
FLY = BASE + "topology = fly\nn = 1\nrouting_function = dest_tag\n"
MESH = BASE + "topology = mesh\nn = 2\nrouting_function = dim_order\n"
TORUS = BASE + "topology = torus\nn = 2\nrouting_function = dim_order\n"
FLATFLY = BASE + "topology = flatfly\nn = 2\nrouting_function = ran_min\n"
SMALL = "vc_buf_size = 4\nejection_buffer_size = 4\n"

NETWORKS = {
    "crossbar": FLY + "k = 6\n",
    "three stages": FLY + "k = 3\nn = 3\n",
    "mesh": MESH + "k = 4\n",
    "cube": MESH + "k = 3\nn = 3\n",
    "torus": TORUS + "k = 5\n",
    "flattened butterfly": FLATFLY + "k = 3\nx = 3\ny = 3\nc = 4\nxr = 2\nyr = 2\n",
    "flattened butterfly of nine": FLATFLY + "k = 2\nx = 2\ny = 2\nc = 9\nxr = 3\nyr = 3\n",
    "small buffers": MESH + SMALL + "k = 4\n",
    "several flits": FLY + "k = 6\nflit_size = 8\n",
    "several flits, small buffers": TORUS + SMALL + "k = 5\nflit_size = 8\nwait_for_tail_credit = 1\n",
    "internal speedup": FLY + "k = 6\ninternal_speedup = 2.0\n",
    "half a speedup": MESH + SMALL + "k = 4\ninternal_speedup = 1.5\nflit_size = 16\n",
    "input speedup": FLY + "k = 6\ninput_speedup = 2\n",
    "passes": FLY + "k = 6\nvc_allocator = islip(3)\nsw_allocator = islip(2)\n",
    "look-ahead": MESH + "k = 4\nrouting_delay = 0\ncredit_delay = 2\nuse_noc_latency = 0\n",
}
DELIVERIES: dict[str, str] = {
    "crossbar": "447dd8236d920882",
    "three stages": "399dae62adcec508",
    "mesh": "06cca37d26848b7c",
    "cube": "7a777fdc61966ba2",
    "torus": "141b7e1d94c92ac0",
    "flattened butterfly": "3d5f07badfa8452f",
    "flattened butterfly of nine": "9e434aaa385d512f",
    "small buffers": "06cca37d26848b7c",
    "several flits": "d30afc6fe677fc85",
    "several flits, small buffers": "c6044c3d18426bb2",
    "internal speedup": "4a5f2e327a210b3d",
    "half a speedup": "eeabf2c3bd043396",
    "input speedup": "dee836261bae9905",
    "passes": "be0de0249641db04",
    "look-ahead": "2fdec72d2b3056b2",
}


def make(text: str) -> FlitNetwork:
    """The network of a description."""
    return FlitNetwork(flit_config(parse_booksim_config(text, "test").values, BYTES))


def draw_packets(nodes: int, count: int = 900, span: int = 150) -> np.ndarray:
    """(count, 4) packets by time: cycle, source, destination, kind; a linear congruence, alike everywhere."""
    value = 12345
    rows: list[tuple[int, ...]] = []
    for _ in range(count):
        row: list[int] = []
        for size in (span, nodes, nodes, 4):
            value = (value * 1103515245 + 12345) % (1 << 31)
            row.append((value >> 8) % size)
        rows.append(tuple(row))
    return np.array(sorted(rows), dtype=np.int64)


class Run:
    """A network with packets, which can be run in pieces."""

    def __init__(
        self, network: FlitNetwork, packets: np.ndarray, *, period: int = 1, skips: bool = True
    ) -> None:
        self.network, self.at = network, 3
        capacity = sum(network.config.sizes) * len(packets)
        self.state = np.zeros(self.at + network.table_words + capacity * network.flit_words, dtype=np.int64)
        network.write(self.state, self.at, self.at + network.table_words, capacity)
        self.packets = np.full((len(packets), PACKET.num_words), -1, dtype=np.int64)
        self.packets[:, :4] = packets
        self.heads = np.full(network.num_nodes, -1, dtype=np.int64)
        newest: dict[int, int] = {}
        for index, source in enumerate(packets[:, 1].tolist()):
            if source in newest:
                self.packets[newest[source], PACKET.next] = index
            else:
                self.heads[source] = index
            newest[source] = index
        self.period, self.skips, self.cycle, self.steps = period, int(skips), 0, 0
        self.taken: list[tuple[int, int, int]] = []

    def advance(self, until: int) -> "Run":
        """Run to a cycle."""
        cycles = (self.cycle, until, self.period, self.skips)
        count, steps = replay(self.state, self.at, self.packets.reshape(-1), self.heads, cycles)
        taken = self.packets[:, PACKET.taken]
        found = np.flatnonzero(taken >= self.cycle)
        assert len(found) == count
        takers = self.packets[:, PACKET.taker]
        self.taken += sorted((int(taken[each]), int(takers[each]), int(each)) for each in found)
        self.steps += steps
        self.cycle = until
        return self

    def head(self, word: int) -> int:
        """A word of the network's header."""
        return int(self.state[self.at + word])


def digest(taken: list[tuple[int, int, int]]) -> str:
    """Of every delivery, in order."""
    return hashlib.blake2b(repr(taken).encode(), digest_size=8).hexdigest()


def one_way(network: FlitNetwork, source: int, target: int, kind: int = fk.READ_REQUEST) -> int:
    """Cycles from the injection of a lone packet until it can be taken."""
    run = Run(network, np.array([(0, source, target, kind)], dtype=np.int64)).advance(200)
    assert len(run.taken) == 1
    return run.taken[0][0]


def test_a_lone_flit_takes_seven_steps_through_a_crossbar() -> None:
    # Injected in step 0, at the router in 2, routed, two allocations, the crossbar; readable after step 7.
    assert one_way(make(FLY + "k = 3\n"), 0, 2) == 8


@pytest.mark.parametrize(("target", "hops"), [(1, 1), (3, 3), (4, 1), (15, 6)])
def test_a_hop_of_a_mesh_takes_five_cycles(target: int, hops: int) -> None:
    assert one_way(make(MESH + "k = 4\n"), 0, target) == 8 + 5 * hops


def test_a_torus_goes_the_short_way_round() -> None:
    # Links of a folded torus take a cycle more; node 4 is one step down from node 0.
    assert one_way(make(TORUS + "k = 5\n"), 0, 4) == 8 + 6
    assert one_way(make(TORUS + "k = 4\n"), 0, 2) == one_way(make(TORUS + "k = 4\n"), 1, 3) == 8 + 2 * 6


def test_a_flattened_butterfly_needs_one_hop_a_dimension() -> None:
    # The link is as long as the distance it spans.
    assert one_way(make(FLATFLY + "k = 4\nx = 4\ny = 4\n"), 0, 3) == 8 + 4 + 3


def test_a_vc_needs_three_steps_a_flit() -> None:
    network = make(FLY + "k = 3\nread_request_end_vc = 0\n")
    packets = np.array([(0, 0, 1, 0)] * 5, dtype=np.int64)
    assert [cycle for cycle, _, _ in Run(network, packets).advance(100).taken] == [8, 11, 14, 17, 20]


def test_six_vcs_carry_a_flit_a_cycle() -> None:
    packets = np.array([(index, 0, 1 + index % 2, 0) for index in range(40)], dtype=np.int64)
    run = Run(make(FLY + "k = 3\n"), packets).advance(200)
    assert [cycle for cycle, _, _ in run.taken] == list(range(8, 48))


@pytest.mark.parametrize("name", NETWORKS)
def test_every_delivery_is_that_of_booksim(name: str) -> None:
    network = make(NETWORKS[name])
    run = Run(network, draw_packets(network.num_nodes), period=2).advance(6000)
    assert len(run.taken) == 900
    assert digest(run.taken) == DELIVERIES[name]
    assert run.steps < 3000
    assert run.head(fk.NET.live) == run.head(fk.NET.flying) == run.head(fk.NET.credits) == 0


@pytest.mark.parametrize("name", ["crossbar", "torus", "half a speedup"])
def test_skipped_cycles_and_pieces_change_nothing(name: str) -> None:
    network = make(NETWORKS[name])
    packets = draw_packets(network.num_nodes)
    whole = Run(network, packets, skips=False, period=3).advance(4000)
    pieces = Run(network, packets, period=3)
    for until in (1, 7, 50, 51, 300, 4000):
        pieces.advance(until)
    assert pieces.taken == whole.taken
    assert np.array_equal(pieces.state, whole.state)
    assert pieces.steps < whole.steps / 2


def test_a_copy_of_the_words_is_a_snapshot() -> None:
    network = make(NETWORKS["small buffers"])
    run = Run(network, draw_packets(16)).advance(80)
    words, heads, count = run.state.copy(), run.heads.copy(), len(run.taken)
    first = run.advance(3000).taken[count:]
    run.state[:], run.heads[:], run.cycle = words, heads, 80
    run.taken.clear()
    assert run.advance(3000).taken == first


def test_a_node_that_takes_nothing_holds_the_network_back() -> None:
    network = make(FLY + SMALL + "k = 3\nboundary_buffer_size = 4\ninput_buffer_size = 8\n")
    packets = np.array([(0, 0, 1, 0)] * 200, dtype=np.int64)
    run = Run(network, packets, period=100_000).advance(2000)
    # Node 1 keeps 4 flits at the boundary and 4 in the ejection queue of each of 6 VCs, the router 4 a VC.
    assert not run.taken
    assert run.head(fk.NET.live) == 6 * (4 + 4 + 4) + 8
    fabric = FlitFabric(network, ["a", "b", "c"], 1.0)
    states = fabric.element_states(run.state, run.at, fabric.shape.whole)
    assert states[0].tolist() == [HELD, 3]
    assert STATES[3].name == "packets wait to be taken"


def test_loads_show_the_way_of_a_stream() -> None:
    network = make(MESH + "k = 4\n")
    packets = np.array([(index, 0, 10, 0) for index in range(400)], dtype=np.int64)
    run = Run(network, packets).advance(400)
    fabric = FlitFabric(network, [], 0.5)
    loads = fabric.link_loads(run.state, run.at, 399, fabric.shape.whole)
    # x first: from router 0 east to column 2, then south to row 2, and out.
    assert [(int(row), int(column), int(port)) for row, column, port in np.argwhere(loads)] == [
        (0, 0, EAST),
        (0, 1, EAST),
        (0, 2, SOUTH),
        (1, 2, SOUTH),
        (2, 2, RAMP),
    ]
    assert loads.max() > 240
    later = fabric.link_loads(run.state, run.at, 5000, fabric.shape.whole)
    assert not later.any()
    assert (fabric.element_states(run.state, run.at, Area(3, 3, 1, 1)) == IDLE).all()
    glance = fabric.glances(run.state, run.at, Area(0, 0, 1, 1))[0, 0]
    assert glance.detail == "passing flits on"
    assert glance.levels[0].entries > 0
    words = fabric.words(run.state, run.at, 399, fabric.shape.whole)
    assert len(words) == run.head(fk.NET.flying) + sum(
        glance.levels[0].entries for glance in fabric.glances(run.state, run.at, Area(0, 0, 4, 4)).values()
    )
    assert (words["arrival"][~words["waits"]] > words["start"][~words["waits"]]).all()
    titles = [table.title for table in fabric.element_details(run.state, run.at, 0, 0)]
    assert titles == ["Links out", "Buffers", "Nodes"]


BAD = {
    "vc_allocator = wavefront": "vc_allocator = wavefront is not modelled; islip",
    "vc_allocator = islip(0)": "islip(0) is not modelled",
    "output_speedup = 2": "output_speedup = 2 is not modelled; 1 is",
    "internal_speedup = 0.5": "internal_speedup = 0.5; expected 1 to 8",
    "num_vcs = 65": "num_vcs = 65; expected a whole number from 1 to 64",
    "num_vcs = 8": "read_reply_begin_vc = 8",
    "k = 70": "k = 70, n = 2: at most 4096 nodes",
    "n = 200": "at most 4096 nodes",
    "routing_function = valiant": "topology mesh with routing_function valiant is not modelled; dest_tag_fly",
    "topology = dragonflynew": "topology dragonflynew",
    "ejection_buffer_size = 2": "ejection_buffer_size = 2 is smaller",
    "flit_size = 1\nboundary_buffer_size = 4": "a packet of 32 flits does not fit",
    "topology = flatfly\nrouting_function = ran_min\nk = 3": "expected n = 2 and x = y = k",
    "topology = torus\nread_request_end_vc = 0": "a torus needs two VCs",
    "buf_size = 3": "leaves no flit for each of 16 VCs",
    "topology = fly\nrouting_function = dest_tag\nk = 4000\nn = 1\nnum_vcs = 64\nvc_buf_size = 60000\n"
    "ejection_buffer_size = 0": "MiB",
}


@pytest.mark.parametrize("lines", BAD)
def test_what_is_not_modelled_is_named(lines: str) -> None:
    with pytest.raises(TargetError) as caught:
        make(MESH + "k = 4\n" + lines)
    assert BAD[lines] in str(caught.value)
    assert "\n" not in str(caught.value)


def test_more_ports_than_nodes_is_refused_with_the_rule() -> None:
    config = flit_config(parse_booksim_config(FLY + "k = 20\n", "test").values, BYTES)
    with pytest.raises(
        TargetError, match=r"fly k=20 n=1 has 20 nodes, the chip needs 80 \(64 ports and 16 chan"
    ):
        check_nodes(config, 80, "64 ports and 16 channels")
    check_nodes(config, 20)
    check_nodes(config, 18, is_exact=False)
