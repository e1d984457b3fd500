"""Define the configuration of an RK3588 NPU: each figure with its source, presets, and changes by
settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le

from npuviz.formats.json_text import read_json_object
from npuviz.program.program import Note
from npuviz.sim.latencies import MOST_SEED
from npuviz.sim.settings import SpecSettings
from npuviz.sim.target import LoadRequest, Setting

Nanoseconds = Annotated[float, Ge(0), Le(1e9)]
Rate = Annotated[float, Gt(0), Le(1e6)]
Hertz = Annotated[int, Ge(1_000_000), Le(100_000_000_000)]

SOURCES: Mapping[str, str] = {
    "npu_hz": "JAS, PROF: up to 1 GHz",
    "ddr_hz": "PROF: 1560 MHz in the published profiles",
    "ddr_bytes_per_clock": "PROF, fitted: 16 bytes a DDR clock",
    "ddr_share": "PROF, fitted: 0.7 of the peak",
    "cbuf_banks": "MESA, MTX: 12 banks",
    "cbuf_bank_bytes": "MESA, MTX: 32 KiB",
    "channels_per_atomic": "PROF, fitted: 32 channels at a time",
    "kernels_int8": "PROF, fitted: 32 kernels at a time for int8",
    "kernels_fp16": "PROF, fitted: 16 kernels at a time for fp16",
    "channels_depthwise": "PROF, fitted: 64 channels at a time",
    "stripe_atomics": "NVDLA: 16 to 32 atomics a stripe; the upper bound is taken",
    "output_rate": "PROF, fitted: 0.25 ns an output element of a convolution",
    "clip_rate": "PROF, fitted: 0.39 ns with clip",
    "table_rate": "PROF, fitted: 0.55 ns with a table (sigmoid)",
    "product_rate": "PROF, fitted: 0.59 ns with a table and a product (swish)",
    "elementwise_rate": "PROF, fitted: 3.9 elements a cycle (Add); NVDLA: 4 of the Y path",
    "pooling_rate": "Assumed: one 16-byte atom a cycle, 16 int8 elements",
    "task_ns": "ORK: 1.27 us of hardware a task in a chain",
    "task_driver_ns": "Assumed: 0 in a chain of the vendor's driver; ORK measured 7.39 us with other drivers",
    "job_driver_ns": "PROF, fitted: 11 us a layer with instrumentation, less the task's own 1.27 us",
    "backlog_bytes": "Assumed: 4 KiB between DPU and memory",
    "chunk_bytes": "Assumed: 512 bytes of one stream before the next has its turn",
    "host_call_ns": "PROF: 27 rows of inputs and outputs on the CPU, up to 150 KiB: 2 to 13 us, their mean",
    "host_convert_bytes_per_ns": "JAS: 512 KiB of fp16 converted in 2 ms, 0.26 B/ns",
    "host_operator_ns": "PROF: the shortest of those rows, 2 us until the next operator is called",
    "host_operations_per_ns": "Arm: two 128-bit multiply-adds (16 operations) a cycle at 2.4 GHz",
    "host_bytes_per_ns": "RK1: 17 to 22 GB/s of memory bandwidth measured; the lower bound is taken",
    "host_cache_bytes": "Linux: rk3588-base.dtsi, l3_cache: 3 MiB for all cores",
    "host_share": "npuviz's own goal: at most a tenth of a convolutional network's run on the Host",
    "host_share_others": "npuviz's own goal: at most a quarter of any other run on the Host",
    "host_price": "Assumed: what a processor left to other work is worth",
    "host_processor": "Rockchip: the faster half of the RK3588's cores; that one runs them is assumed",
}
"""Where each figure is from; "Assumed" where no public source was found."""


@dataclass(frozen=True, slots=True)
class RknnSpec:
    """The configuration of one NPU. Sources are in SOURCES; every field can be set.

    cores         how many of the three cores run the program
    dtype         the type to which the compiler brings float models
    *_rate        elements per cycle that the DPU (pooling: PPU) puts out, by what it has to do
    keep_fp32     names of operators that the Host computes in fp32, separated by commas: the NPU stores fp16
    host_*        the processor that runs Host operators: its name, a call from the driver and back, each
                  further operator that it calls before the NPU works again (in a Loop: each turn), operations
                  and bytes of one core, its last cache, beyond which weights of recurrent operators come from
                  memory at every step, and bytes of the NPU's layouts converted
    partition     "least-time": operators that both can run go where the whole takes least; "spare-host": so
                  that the Host has at most a share of the run, if that takes at most `host_price` times as
                  long (in proportion, where the share is out of reach); "most-npu": to the NPU
    host_share    the share that "spare-host" aims at for networks that are mostly convolutions;
                  host_share_others  for others
    submit        "chain": one driver start for all tasks that need no host in between; "layer": one per layer
    latency_seed  0: the figures above; else tasks, Host calls and DDR take other times
    """

    npu_hz: Hertz = 1_000_000_000
    ddr_hz: Hertz = 1_560_000_000
    ddr_bytes_per_clock: Annotated[int, Ge(1), Le(1024)] = 16
    ddr_share: Annotated[float, Gt(0), Le(1)] = 0.7
    cbuf_banks: Annotated[int, Ge(2), Le(15)] = 12
    cbuf_bank_bytes: Annotated[int, Ge(1024), Le(1 << 20)] = 32768
    channels_per_atomic: Annotated[int, Ge(8), Le(256)] = 32
    kernels_int8: Annotated[int, Ge(8), Le(256)] = 32
    kernels_fp16: Annotated[int, Ge(8), Le(256)] = 16
    channels_depthwise: Annotated[int, Ge(8), Le(256)] = 64
    stripe_atomics: Annotated[int, Ge(1), Le(1024)] = 32
    output_rate: Rate = 4.0
    clip_rate: Rate = 1 / 0.39
    table_rate: Rate = 1 / 0.55
    product_rate: Rate = 1 / 0.59
    elementwise_rate: Rate = 3.9
    pooling_rate: Rate = 16.0
    task_ns: Nanoseconds = 1270.0
    task_driver_ns: Nanoseconds = 0.0
    job_driver_ns: Nanoseconds = 9730.0
    backlog_bytes: Annotated[int, Ge(0), Le(1 << 24)] = 4096
    chunk_bytes: Annotated[int, Ge(16), Le(1 << 20)] = 512
    host_call_ns: Nanoseconds = 6_300.0
    host_operator_ns: Nanoseconds = 2_000.0
    host_operations_per_ns: Rate = 38.4
    host_bytes_per_ns: Rate = 17.0
    host_convert_bytes_per_ns: Rate = 0.26
    host_cache_bytes: Annotated[int, Ge(0), Le(1 << 40)] = 3 << 20
    host_processor: str = "Cortex-A76 at 2.4 GHz"
    cores: Annotated[int, Ge(1), Le(3)] = 1
    dtype: Literal["int8", "fp16"] = "int8"
    partition: Literal["spare-host", "least-time", "most-npu"] = "spare-host"
    host_share: Annotated[float, Ge(0), Le(1)] = 0.1
    host_share_others: Annotated[float, Ge(0), Le(1)] = 0.25
    host_price: Annotated[float, Ge(1), Le(1000)] = 2.0
    submit: Literal["chain", "layer"] = "chain"
    keep_fp32: str = ""
    latency_seed: Annotated[int, Ge(0), Le(MOST_SEED)] = field(default=0, repr=False)

    @property
    def cbuf_bytes(self) -> int:
        """Bytes of all banks."""
        return self.cbuf_banks * self.cbuf_bank_bytes

    @property
    def bytes_per_cycle(self) -> float:
        """Bytes that DDR moves in one NPU cycle, for all cores together."""
        return self.ddr_share * self.ddr_bytes_per_clock * self.ddr_hz / self.npu_hz

    def to_cycles(self, nanoseconds: float) -> int:
        """Return the NPU cycles that a time takes, rounded up."""
        return -int(-nanoseconds * self.npu_hz // 1_000_000_000)


PRESETS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "rk3588": ("RK3588: three cores at 1 GHz, DDR 1560 MHz", {}),
    "rk3588-boot": (
        "RK3588 as the mainline driver leaves it: 200 MHz",
        {"npu_hz": 200_000_000},
    ),
    "rk3588-ddr528": ("RK3588 with the DDR governor parked at 528 MHz", {"ddr_hz": 528_000_000}),
}
"""Name -> one-line description and what differs from the first. Ref: GREG (200 MHz), ORK (528 MHz)."""

SETTINGS = SpecSettings(
    RknnSpec, {name: values for name, (_, values) in PRESETS.items()}, sources=lambda _: SOURCES
)


def make_spec(
    preset: str = "", config: Path | None = None, settings: Mapping[str, str] | None = None
) -> tuple[RknnSpec, tuple[Note, ...]]:
    """Return the spec that the user asked for, and notes on the figures that are assumed."""
    described = read_json_object(config) if config is not None else {}
    return SETTINGS.make(preset, described, config, settings)


def list_settings(request: LoadRequest) -> tuple[Setting, ...]:
    """Return every setting with its value and the source of the value. Raises as `make_spec`."""
    described = read_json_object(request.config) if request.config is not None else {}
    return SETTINGS.rows(request, described)
