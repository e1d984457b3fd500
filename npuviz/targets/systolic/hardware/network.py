"""The flit-level network of a chip: from a file in BookSim's form, or of a named shape."""

from math import isqrt
from pathlib import Path

from npuviz.base.errors import FormatError, TargetError
from npuviz.formats.onnxim.booksim import BooksimConfig, parse_booksim_config, read_booksim_config
from npuviz.formats.onnxim.hardware import OnnximConfig
from npuviz.sim.network.flit_network import FlitConfig, check_nodes, flit_config
from npuviz.targets.systolic.hardware.named_files import named_file

NETWORKS = ("fly", "mesh", "torus", "flatfly")

PACKET_BYTES = (8, 32, 32, 8)
"""Read request, write request, read reply, write reply. Ref: SRC, control 8 B, data 32 B."""

# Buffers and flit size of ONNXim's own files, so that shapes can be compared.
_COMMON = """
use_map = 0
flit_size = 64
vc_buf_size = 64
input_buffer_size = 256
ejection_buffer_size = 64
boundary_buffer_size = 64
"""


def read_network(
    hardware: OnnximConfig, choice: str, beside: Path | None, *, is_exact: bool
) -> tuple[FlitConfig, tuple[str, ...]]:
    """Return (rules, warnings) of the network: `choice` is "file", or one of NETWORKS made for this chip.

    beside    the hardware file, to whose folder the network file's name is appended
    is_exact  the network must have as many nodes as the chip needs; else further ones stay unused
    Raises FormatError (file), TargetError (not modelled, other number of nodes).
    """
    needed = node_count(hardware)
    what = (
        f"{hardware.num_cores} cores x {hardware.icnt_injection_ports_per_core} ports "
        f"+ {hardware.dram_channels} DRAM channels"
    )
    if choice != "file":
        config = flit_config(shape_of(choice, needed).values, PACKET_BYTES)
        check_nodes(config, needed, what, is_exact=False)
        return config, ()
    shapes = "|".join(NETWORKS)
    path = named_file(
        "icnt_config_path",
        hardware.icnt_config_path,
        beside,
        absent=f"network booksim2 without an icnt_config_path; choose a shape with --set network={shapes}",
        hint=f"or --set network={shapes}, --set icnt_type=simple",
    )
    description = read_booksim_config(path)
    try:
        config = flit_config(description.values, PACKET_BYTES)
        check_nodes(config, needed, what, is_exact=is_exact)
    except TargetError as error:
        raise FormatError(path, found=str(error)) from None
    warnings = list(description.warnings)
    if config.topology.num_nodes > needed:
        warnings.append(f"{path}: {config.topology.num_nodes - needed} nodes of the network are not used")
    return config, tuple(warnings)


def node_count(hardware: OnnximConfig) -> int:
    """Return the number of nodes of the network: one per port of a core, then one per DRAM channel."""
    return hardware.num_cores * hardware.icnt_injection_ports_per_core + hardware.dram_channels


def shape_of(choice: str, nodes: int) -> BooksimConfig:
    """Describe a network of a shape with at least `nodes` nodes.

    Assumed: cores lie on the grid row by row, then the DRAM channels.
    """
    if choice == "fly":
        lines = f"topology = fly\nk = {nodes}\nn = 1\nrouting_function = dest_tag\n"
    elif choice == "flatfly":
        side = 1 if nodes <= 16 else 2
        radix = max(2, isqrt(max(0, -(-nodes // (side * side)) - 1)) + 1)
        lines = (
            f"topology = flatfly\nk = {radix}\nn = 2\nx = {radix}\ny = {radix}\nc = {side * side}\n"
            f"xr = {side}\nyr = {side}\nrouting_function = ran_min\n"
        )
    else:
        radix = max(2, isqrt(nodes - 1) + 1)
        lines = f"topology = {choice}\nk = {radix}\nn = 2\nrouting_function = dim_order\n"
    return parse_booksim_config(_COMMON + lines, f"network {choice}")
