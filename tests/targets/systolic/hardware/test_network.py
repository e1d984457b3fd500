"""The detailed network of a chip: its file, shapes made for the chip, what is refused."""

import json
from pathlib import Path

import pytest

from npuviz.base.errors import NpuvizError
from npuviz.sim.network import records_kernels as fk
from npuviz.targets.systolic.hardware.network import NETWORKS, node_count, shape_of
from npuviz.targets.systolic.machine.networked import node_names
from npuviz.targets.systolic.presets import PRESETS
from npuviz.targets.systolic.spec import make_spec

NET = "topology = fly\nk = {nodes}\nn = 1\nrouting_function = dest_tag\nuse_map = 0\nflit_size = 64\n"


def write(folder: Path, nodes: int, **changes: object) -> Path:
    """A hardware file whose network has so many nodes; it needs one per core and two for its channels."""
    hardware = dict(PRESETS["edge-8x8-c4"][1])
    hardware |= {"icnt_type": "booksim2", "icnt_config_path": "net.icnt", **changes}
    (folder / "net.icnt").write_text(NET.format(nodes=nodes), encoding="utf-8")
    path = folder / "chip.json"
    path.write_text(json.dumps(hardware), encoding="utf-8")
    return path


def test_a_file_beside_the_hardware_file(tmp_path: Path) -> None:
    spec, _ = make_spec(config=write(tmp_path, 6), settings={"mode": "parity"})
    assert spec.flits is not None
    assert spec.flits.topology.num_nodes == node_count(spec.config) == 6
    # One 64-byte flit for every packet, requests and replies on VCs of their own.
    assert spec.flits.sizes == (1, 1, 1, 1)
    assert (spec.flits.first_vc, spec.flits.last_vc) == ((0, 2, 8, 10), (5, 7, 13, 15))
    assert node_names(spec) == ["Core[0]", "Core[1]", "Core[2]", "Core[3]", "DRAM[0]", "DRAM[1]"]


def test_the_number_of_nodes_must_fit(tmp_path: Path) -> None:
    with pytest.raises(NpuvizError) as caught:
        make_spec(config=write(tmp_path, 5))
    text = str(caught.value)
    assert "net.icnt" in text
    assert "fly k=5 n=1 has 5 nodes, the chip needs 6 (4 cores x 1 ports + 2 DRAM channels)" in text
    # More nodes than needed stay unused, but ONNXim's numbering leaves none over.
    spec, notes = make_spec(config=write(tmp_path, 8))
    assert spec.flits is not None
    assert any("2 nodes of the network are not used" in note.text for note in notes)
    with pytest.raises(NpuvizError, match="has 8 nodes, the chip needs 6"):
        make_spec(config=write(tmp_path, 8), settings={"mode": "parity"})


def test_more_ports_than_nodes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NpuvizError, match=r"the chip needs 66 \(4 cores x 16 ports \+ 2 DRAM channels\)"):
        make_spec(config=write(tmp_path, 6), settings={"icnt_injection_ports_per_core": "16"})


def test_a_missing_file_names_the_way_out(tmp_path: Path) -> None:
    path = write(tmp_path, 6, icnt_config_path="absent.icnt")
    with pytest.raises(
        NpuvizError, match=r"icnt_config_path: expected a file at .*absent.icnt.*--set network="
    ):
        make_spec(config=path)
    with pytest.raises(NpuvizError, match="without an icnt_config_path; choose a shape with --set network"):
        make_spec("edge-8x8-c4", settings={"icnt_type": "booksim2"})


@pytest.mark.parametrize("shape", NETWORKS)
@pytest.mark.parametrize("cores", ["1", "4", "30"])
def test_shapes_are_made_large_enough(shape: str, cores: str) -> None:
    spec, _ = make_spec("edge-8x8-c4", settings={"network": shape, "cores": cores})
    assert spec.flits is not None
    assert spec.config.icnt_type == "booksim2"
    assert spec.flits.topology.num_nodes >= int(cores) + 2
    codes = (fk.TOPOLOGY_FLY, fk.TOPOLOGY_MESH, fk.TOPOLOGY_TORUS, fk.TOPOLOGY_FLATFLY)
    assert spec.flits.topology.code == codes[NETWORKS.index(shape)]


def test_shapes_are_as_small_as_can_be() -> None:
    sizes = {
        name: [int(shape_of(name, nodes).values["k"]) for nodes in (2, 4, 5, 17, 80)] for name in NETWORKS
    }
    assert sizes == {
        "fly": [2, 4, 5, 17, 80],
        "mesh": [2, 2, 3, 5, 9],
        "torus": [2, 2, 3, 5, 9],
        "flatfly": [2, 2, 3, 3, 5],
    }


def test_a_simple_network_has_no_flits() -> None:
    spec, _ = make_spec("edge-8x8-c4")
    assert spec.flits is None
