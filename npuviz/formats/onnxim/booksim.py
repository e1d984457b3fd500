"""Read BookSim-style network descriptions: `name = value` lines, as in ONNXim's `.icnt` files.

Lines may end in a semicolon (BookSim's own files) and comments begin with //, # or ;. Names without
effect on a network driven from outside (traffic patterns, sampling, printing) are accepted and unused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from npuviz.base.errors import FormatError
from npuviz.formats.binary import read_text

Value = int | float | str

MAX_BYTES = 1 << 20

DEFAULTS: Mapping[str, Value] = {
    # Ref: BOOK booksim_config.cpp
    "topology": "torus",
    "k": 8,
    "n": 2,
    "c": 1,
    "x": 8,
    "y": 8,
    "xr": 1,
    "yr": 1,
    "routing_function": "none",
    "use_noc_latency": 1,
    "subnets": 1,
    "link_failures": 0,
    "router": "iq",
    "credit_delay": 0,
    "internal_speedup": 1.0,
    "input_speedup": 1,
    "output_speedup": 1,
    "output_buffer_size": -1,
    "noq": 0,
    "speculative": 0,
    "num_vcs": 16,
    "vc_buf_size": 8,
    "buf_size": -1,
    "buffer_policy": "private",
    "wait_for_tail_credit": 0,
    "vc_busy_when_full": 0,
    "vc_prioritize_empty": 0,
    "vc_priority_donation": 0,
    "vc_shuffle_requests": 0,
    "hold_switch_for_packet": 0,
    "routing_delay": 1,
    "vc_alloc_delay": 1,
    "sw_alloc_delay": 1,
    "st_prepare_delay": 0,
    "st_final_delay": 1,
    "vc_allocator": "islip",
    "sw_allocator": "islip",
    "priority": "none",
    "read_request_begin_vc": 0,
    "read_request_end_vc": 5,
    "write_request_begin_vc": 2,
    "write_request_end_vc": 7,
    "read_reply_begin_vc": 8,
    "read_reply_end_vc": 13,
    "write_reply_begin_vc": 10,
    "write_reply_end_vc": 15,
    # Ref: BOOK GNNSimConfig.cpp
    "use_map": 1,
    "flit_size": 32,
    "input_buffer_size": 0,
    "ejection_buffer_size": 0,
    "boundary_buffer_size": 16,
}
"""Values of names that a file leaves out."""

_UNUSED = frozenset(
    (
        *("deadlock_warn_timeout", "output_delay", "channel_file", "fail_seed", "in_ports"),
        *("out_ports", "spec_check_elig", "spec_check_cred", "spec_mask_by_reqs", "spec_sw_allocator"),
        *("private_bufs", "private_buf_size", "arb_type", "alloc_iters", "classes", "traffic"),
        *("class_priority", "perm_seed", "injection_rate", "injection_rate_uses_flits", "packet_size"),
        *("injection_process", "batch_size", "batch_count", "max_outstanding_requests"),
        *("use_read_write", "write_fraction", "read_request_subnet", "read_reply_subnet"),
        *("write_request_subnet", "write_reply_subnet", "read_request_size", "write_request_size"),
        *("read_reply_size", "write_reply_size", "sim_type", "warmup_periods", "sample_period"),
        *("max_samples", "measure_stats", "pair_stats", "latency_thres", "warmup_thres"),
        *("acc_warmup_thres", "stopping_thres", "acc_stopping_thres", "sim_count", "include_queuing"),
        *("seed", "print_activity", "print_csv_results", "viewer_trace", "watch_file", "watch_flits"),
        *("watch_packets", "watch_transactions", "watch_out", "stats_out", "sim_power"),
        *("power_output_file", "tech_file", "channel_width", "channel_sweep", "network_file"),
        *("perfect_icnt", "fixed_lat_per_hop", "memory_node_map", "header_size"),
        *("output_extra_latency", "network_count", "enable_link_stats"),
    )
)


@dataclass(frozen=True, slots=True)
class BooksimConfig:
    """A network description: complete values (DEFAULTS where absent), and warnings about unknown names."""

    values: Mapping[str, Value]
    warnings: tuple[str, ...] = ()


def read_booksim_config(path: Path) -> BooksimConfig:
    """Read a file. Raises FormatError."""
    return parse_booksim_config(read_text(path, MAX_BYTES), path)


def parse_booksim_config(text: str, where: str | Path) -> BooksimConfig:
    """Parse a description from text; `where` names it in errors. Raises FormatError with the line."""
    values: dict[str, Value] = dict(DEFAULTS)
    warnings: list[str] = []
    count = 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.split("//")[0].split("#")[0].split(";")[0].strip()
        if not line or (line.startswith("[") and line.endswith("]")):
            continue
        name, equals, given = (part.strip() for part in line.partition("="))
        if not equals or not name or not given:
            raise FormatError(where, field=f"line {number}", expected="name = value", found=repr(line[:60]))
        count += 1
        if name in DEFAULTS:
            values[name] = _value(name, given, where, number)
        elif name not in _UNUSED:
            close = get_close_matches(name, DEFAULTS, n=1)
            hint = f"; close: {close[0]}" if close else ""
            warnings.append(f"{where}, line {number}: unknown name {name[:60]!r} is ignored{hint}")
    if not count:
        raise FormatError(where, expected="lines of name = value", found="none")
    return BooksimConfig(values, tuple(warnings))


def _value(name: str, given: str, where: str | Path, number: int) -> Value:
    default = DEFAULTS[name]
    if isinstance(default, str):
        return given
    expected = "a number" if isinstance(default, float) else "a whole number"
    try:
        value = float(given) if isinstance(default, float) else int(given)
    except ValueError:
        value = None
    if value is None or not abs(value) <= 1 << 40:
        raise FormatError(where, field=f"line {number}, {name}", expected=expected, found=repr(given[:60]))
    return value
