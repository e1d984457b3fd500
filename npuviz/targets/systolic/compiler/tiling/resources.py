"""The figures of the chip that tilings depend on."""

from dataclasses import dataclass, replace

from npuviz.onnx.host_work import Processor
from npuviz.targets.systolic.spec import SystolicSpec

ACC_BYTES = 4
"""Bytes of an accumulator element: float32, or int32 for quantised models (Gemmini, DAC'21)."""


WEIGHTS, OUTPUTS, INPUTS = "systolic_ws", "systolic_os", "systolic_is"
"""What stays in the array: values of `core_type`."""


@dataclass(frozen=True, slots=True)
class Resources:
    """Memory and array of a core for a tile, and transfer rates of the chip.

    array_rows, array_columns    PEs: with weights in place, along the reduction (K) and the outputs (M)
    dataflow                     what stays in the array
    spad_half, acc_half          bytes that one tile owns
    request_bytes                bytes of one DRAM request
    vector_bytes                 bytes the vector unit handles per step
    bytes_per_cycle              DRAM bytes per core cycle that all channels deliver in practice
    core_bytes_per_cycle         bytes per core cycle that one core can draw
    host                         what runs Host operators, in core cycles instead of nanoseconds
    """

    num_cores: int
    array_rows: int
    array_columns: int
    spad_half: int
    acc_half: int
    request_bytes: int
    vector_bytes: int
    bytes_per_cycle: float
    core_bytes_per_cycle: float
    layout: str
    host: Processor
    dataflow: str = WEIGHTS

    def without(self, entries: int) -> "Resources":
        """Return the same resources without `entries` entries of one request in half of the scratchpad."""
        return replace(self, spad_half=self.spad_half - entries * self.request_bytes) if entries else self

    @property
    def row_block(self) -> int:
        """Rows of a product that the array handles as one block (streamed ones may be more)."""
        return self.array_columns if self.dataflow == INPUTS else self.array_rows

    @property
    def column_block(self) -> int:
        """Columns of a product that the array handles as one block."""
        return self.array_rows if self.dataflow == INPUTS else self.array_columns

    def depth_step(self, depth: int) -> int:
        """Return the reduction elements of one instruction."""
        return max(1, depth) if self.dataflow == OUTPUTS else self.array_rows


def ceil_div(value: int, divisor: int) -> int:
    """Return the quotient rounded up."""
    return -(-value // divisor)


def round_up(value: int, step: int) -> int:
    """Return the smallest multiple of `step` that is at least `value`."""
    return ceil_div(value, step) * step


_HASH_EFFICIENCY = 0.75
"""Assumed: share of the peak left when the channel hash loads channels unevenly (0.6 to 0.9 seen)."""


def resources_of(spec: SystolicSpec) -> Resources:
    """Return the resources of a spec; where cores differ, those of the smallest."""
    config, cores = spec.config, spec.cores
    # A channel hands at most one request per network tick to the network (systolic.md section 3).
    pace = min(config.dram_freq, config.icnt_freq) / config.core_freq
    dram = config.dram_channels * config.dram_req_size * pace * _HASH_EFFICIENCY
    ports = config.icnt_injection_ports_per_core * config.dram_req_size * config.icnt_freq / config.core_freq
    request = config.dram_req_size
    return Resources(
        num_cores=spec.num_cores,
        array_rows=min(core.core_height for core in cores),
        array_columns=min(core.core_width for core in cores),
        spad_half=min(core.spad_bytes for core in cores) // 2 // request * request,
        acc_half=min(core.acc_bytes for core in cores) // 2 // request * request,
        request_bytes=request,
        vector_bytes=max(1, min(core.vector_bytes for core in cores)),
        bytes_per_cycle=dram,
        core_bytes_per_cycle=min(ports, dram),
        layout=config.layout,
        host=Processor(
            spec.host_processor,
            spec.host_cycles,
            spec.host_cycles,
            spec.host_operations_per_cycle,
            spec.host_bytes_per_cycle,
        ),
        dataflow=cores[0].core_type,
    )
