"""The specification of a NeuronCore machine: a generation's figures, changed by settings."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le

from npuviz.base.errors import FormatError, UsageError
from npuviz.formats.json_text import read_json_object
from npuviz.program.program import Note
from npuviz.sim.latencies import MOST_SEED
from npuviz.sim.settings import SpecSettings
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS
from npuviz.targets.neuroncore.presets import PRESETS, figures, sources

Arch = Literal["inf1", "trn1", "trn2", "trn3"]
ComputeDtype = Literal["float32", "bfloat16", "float16"]
Float64 = Literal["float32", "host"]
Dge = Literal["static", "hardware", "software"]
DTYPE_WORDS: Mapping[str, str] = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
"""Short names that the setting `dtype` accepts too."""
KEEPING_FLOAT64 = "--set float64=host computes it on the Host"
"""What keeps the precision and range of float64, for notes and errors."""

Hertz = Annotated[int, Ge(1_000_000), Le(100_000_000_000)]
Bytes = Annotated[int, Ge(1), Le(1 << 40)]
Cycles = Annotated[int, Ge(0), Le(1 << 24)]
Nanoseconds = Annotated[float, Ge(0), Le(1e9)]
Rate = Annotated[float, Gt(0), Le(1e6)]
Share = Annotated[float, Gt(0), Le(1)]


@dataclass(frozen=True, slots=True)
class NeuronSpec:
    """Specification of one logical core; presets.py has the sources. All but arch, version, max_lnc can be
    set.

    arch, version  generation: NeuronCore version 1..4
    lnc            physical cores that act as one (NEFF: subgraphs), see num_cores
    dtype          compute type: intermediate floats and matmul operands; PSUM and ALUs stay fp32
    float64        how tensors of float64 are computed: as float32 on the engines, or on the Host
    keep_fp32      names of operators whose operands and results stay fp32, separated by commas
    *_hz           engine clocks; PE's is the base clock that all cycles count
    sbuf_partition_bytes, psum_partition_bytes, psum_bank_bytes  per partition (there are 128)
    sbuf_reserved_bytes  bytes at the end of each SBUF partition that programs cannot use
    num_dma_engines, max_queues  DMA engines of a physical core; rings a queue set may have
    dma_peak_bytes_per_ns  of one DMA engine
    dma_element_ns  what every element (contiguous run of at most dma_max_element_bytes, or the 4-byte
                   semaphore write at the end) costs beside its bytes, or while they move:
    dma_elements_overlap  whether an element takes the longer of both, not their sum; the semaphore write then
                   begins while a long element before it is moving
    dma_start_ns   trigger to first element; dge_ns  from a DMA_COPY to its trigger, when the hardware makes
                   the descriptors; software_dge_ns  for which GpSimd is busy making them
    dma_compute_rate, dma_transpose_rate  share of the copy rate
    matmul_max_*   limits of one NC_MATMUL in elements; matmul_row_cycles  PE cycles a moving row takes;
                   matmul_fp32_passes  factor for fp32 operands
    pe_ramp_ns     window over which PE's utilization counts, 0: PE is never limited
    pe_ramp_share  share of its array and time below which PE is limited to it in the next window
    *_latency      engine cycles from the end of issue to the end of the instruction
    dve_tiny_cycles  what each of two DVE instructions in a row with few elements takes beside its own cycles,
                   in place of dve_latency; 0: they overlap as others do
    table_load_ns  of an activation table set
    hbm_bytes, hbm_bytes_per_ns  a physical core's share of the chip's memory; an operator's tensors must fit
    host_*         the processor of Host operators: name, time of a call from the device and back, time of
    each
    further operator in it (of a Loop), arithmetic operations and bytes a nanosecond of one core
    dge            how DMA descriptors are made: by the host at load, or by instructions (DMA_COPY)
    limit          most bytes of a NEFF after decompression
    kernel_buffers copies in SBUF of a tile that a line of an NKI kernel makes in each iteration of a loop of
    independent iterations; 0: as many as fit
    kernel_unrolled_places 1: tiles of unrolled loops (static_range) have no more copies; 0: as many as fit
    kernel_away_turns  turns in which a loop on a register may move away from 0 before it is given up; 0: any
    kernel_reorder 1: engines take instructions of such iterations as they become ready; 0: in kernel order
    kernel_plan_engines 1: what Scalar and Vector both can run goes to the one that would end it first; 0: to
    the one that has less to do
    kernel_turns_wait 1: an iteration of a sequential loop makes its tiles when the one before has ended
    kernel_hoist   1: loop-invariant values of a loop of generation 1 are computed in its first iteration only
    kernel_share_loads 1: what an iteration loads twice it loads once, where no inner loop reads it; 2: inner
    loops too; 0: all loads stay
    kernel_turns   number of iterations of such loops among which engines choose instructions; 0: any, within
    kernel_buffers and kernel_lookahead
    kernel_lookahead  number of instructions among which engines choose outside such loops, or if
                      kernel_turns is 0
    kernel_repeat_onezero 1: a row of float32 is repeated over partitions by a product whose ones are marked
    as such, which halves its passes
    kernel_rows_in_psum 1: such a row is read in PSUM, where the product wrote it, if it fits into a bank
    latency_seed   0: the figures above; else durations of instructions, transfers and Host calls vary
    """

    arch: Arch
    version: Annotated[int, Ge(1), Le(4)]
    pe_hz: Hertz
    activation_hz: Hertz
    pool_hz: Hertz
    dve_hz: Hertz
    sp_hz: Hertz
    has_pool: bool
    sbuf_partition_bytes: Annotated[int, Ge(1024), Le(1 << 24)]
    sbuf_reserved_bytes: Annotated[int, Ge(0), Le(512)]
    psum_partition_bytes: Annotated[int, Ge(2048), Le(1 << 20)]
    psum_bank_bytes: Annotated[int, Ge(64), Le(1 << 20)]
    num_dma_engines: Annotated[int, Ge(1), Le(64)]
    max_queues: Annotated[int, Ge(1), Le(16)]
    dma_peak_bytes_per_ns: Rate
    dma_element_ns: Nanoseconds
    dma_elements_overlap: bool
    dma_max_element_bytes: Annotated[int, Ge(64), Le(1 << 30)]
    dma_start_ns: Nanoseconds
    has_hardware_dge: bool
    dge_ns: Nanoseconds
    software_dge_ns: Nanoseconds
    has_dma_compute: bool
    dma_compute_rate: Share
    dma_transpose_rate: Share
    num_semaphores: Annotated[int, Ge(16), Le(1024)]
    num_events: Annotated[int, Ge(1), Le(1024)]
    matmul_max_contraction: Annotated[int, Ge(32), Le(128)]
    matmul_max_stationary: Annotated[int, Ge(32), Le(128)]
    matmul_max_moving: Annotated[int, Ge(32), Le(8192)]
    matmul_row_cycles: Annotated[int, Ge(1), Le(64)]
    matmul_fp32_passes: Annotated[int, Ge(1), Le(64)]
    has_bias_immediate: bool
    has_reciprocal_bias: bool
    has_core_barrier: bool
    max_lnc: Annotated[int, Ge(1), Le(2)]
    pe_latency: Cycles
    activation_latency: Cycles
    pool_latency: Cycles
    dve_latency: Cycles
    sp_latency: Cycles
    table_load_ns: Nanoseconds
    hbm_bytes: Bytes
    hbm_bytes_per_ns: Rate
    host_call_ns: Nanoseconds
    host_bytes_per_ns: Rate
    host_operator_ns: Nanoseconds
    host_operations_per_ns: Rate
    host_processor: str
    pe_ramp_ns: Nanoseconds = 0.0
    pe_ramp_share: Share = 0.5
    dve_tiny_cycles: Cycles = 100
    lnc: Annotated[int, Ge(1), Le(2)] = 1
    dtype: ComputeDtype = "float32"
    dge: Dge = "static"
    keep_fp32: str = ""
    limit: Bytes = 4 << 30
    kernel_buffers: Annotated[int, Ge(0), Le(64)] = field(default=2, repr=False)
    kernel_unrolled_places: Annotated[int, Ge(0), Le(1)] = field(default=0, repr=False)
    kernel_away_turns: Annotated[int, Ge(0), Le(1 << 20)] = field(default=256, repr=False)
    kernel_reorder: Annotated[int, Ge(0), Le(1)] = field(default=1, repr=False)
    kernel_plan_engines: Annotated[int, Ge(0), Le(1)] = field(default=0, repr=False)
    kernel_turns_wait: Annotated[int, Ge(0), Le(1)] = field(default=0, repr=False)
    kernel_turns: Annotated[int, Ge(0), Le(64)] = field(default=2, repr=False)
    kernel_hoist: Annotated[int, Ge(0), Le(1)] = field(default=0, repr=False)
    kernel_share_loads: Annotated[int, Ge(0), Le(2)] = field(default=0, repr=False)
    kernel_lookahead: Annotated[int, Ge(1), Le(4096)] = field(default=256, repr=False)
    kernel_repeat_onezero: Annotated[int, Ge(0), Le(1)] = field(default=0, repr=False)
    kernel_rows_in_psum: Annotated[int, Ge(0), Le(1)] = field(default=0, repr=False)
    float64: Float64 = field(default="float32", repr=False)
    latency_seed: Annotated[int, Ge(0), Le(MOST_SEED)] = field(default=0, repr=False)

    @property
    def num_cores(self) -> int:
        """Number of simulated physical cores."""
        return self.lnc

    @property
    def num_partitions(self) -> int:
        """Partitions of SBUF and PSUM."""
        return NUM_PARTITIONS

    @property
    def clocks_hz(self) -> tuple[int, ...]:
        """Clock by isa.Engine; the Host counts the base clock."""
        return (self.pe_hz, self.activation_hz, self.pool_hz, self.dve_hz, self.sp_hz, self.pe_hz)

    @property
    def latency_cycles(self) -> tuple[int, ...]:
        """Latency by isa.Engine, in cycles of that engine."""
        return (
            self.pe_latency,
            self.activation_latency,
            self.pool_latency,
            self.dve_latency,
            self.sp_latency,
            0,
        )

    @property
    def base_hz(self) -> int:
        """Frequency of the base clock, in which cycles are counted."""
        return self.pe_hz

    @property
    def limited_rate(self) -> str:
        """PE's limited rate as text, to be followed by "its rate"."""
        return "half" if self.pe_ramp_share == 0.5 else f"{self.pe_ramp_share:.0%} of"

    @property
    def num_psum_banks(self) -> int:
        """Banks of a PSUM partition."""
        return self.psum_partition_bytes // self.psum_bank_bytes

    @property
    def sbuf_usable_bytes(self) -> int:
        """Bytes of an SBUF partition that a program may use."""
        return self.sbuf_partition_bytes - self.sbuf_reserved_bytes

    def element_ns(self, num_bytes: float, rate: float) -> float:
        """Return the nanoseconds of a DMA engine for an element of `num_bytes`, at a rate in bytes/ns."""
        moving = num_bytes / rate
        return max(moving, self.dma_element_ns) if self.dma_elements_overlap else moving + self.dma_element_ns

    def to_cycles(self, nanoseconds: float) -> int:
        """Convert nanoseconds to base cycles, rounded up."""
        return -int(-nanoseconds * self.pe_hz // 1_000_000_000)


def _sources(spec: NeuronSpec) -> Mapping[str, str]:
    """Return the sources of the figures that can affect a run of this machine."""
    matters = {
        "pool_hz": spec.has_pool,
        "pool_latency": spec.has_pool,
        "dma_compute_rate": spec.has_dma_compute,
        "dma_transpose_rate": spec.has_dma_compute,
        "num_events": False,
        "sbuf_reserved_bytes": False,
    }
    return {key: source for key, source in sources(spec.version).items() if matters.get(key, True)}


def _bytes(text: str) -> str:
    """Convert bytes written as 4294967296, 4096M or 4GiB to digits; return other texts unchanged."""
    match = re.fullmatch(r"(\d{1,15})([kmgt]?)(i?b)?", text.lower())
    return str(int(match[1]) << 10 * " kmgt".index(match[2] or " ")) if match else text


def _contradiction(spec: NeuronSpec) -> str:
    """Return a text about settings that contradict each other or the machine, or ""."""
    if spec.lnc > spec.max_lnc:
        return f"lnc={spec.lnc}: {spec.arch} has no logical cores of two; --preset trn2 has"
    if spec.dge == "hardware" and not spec.has_hardware_dge:
        return f"dge=hardware: {spec.arch} has no hardware DGE; expected static or software"
    if spec.dge == "software" and not spec.has_pool:
        return f"dge=software: {spec.arch} has no GpSimd to make descriptors; expected static"
    if spec.psum_partition_bytes % spec.psum_bank_bytes or not 1 <= spec.num_psum_banks <= 8:
        return (
            f"psum_bank_bytes={spec.psum_bank_bytes}: expected 1 to 8 equal banks in "
            f"{spec.psum_partition_bytes} bytes"
        )
    return ""


SETTINGS = SpecSettings(
    NeuronSpec,
    {
        name: {"arch": preset.arch, "version": preset.version, **figures(preset.version)}
        for name, preset in PRESETS.items()
    },
    fixed=("arch", "version", "max_lnc"),
    words={"dtype": DTYPE_WORDS, "float64": {"fp32": "float32"}},
    parse={"limit": _bytes},
    problem=_contradiction,
    sources=_sources,
    shown=("lnc", "dtype"),
)


def make_spec(
    preset: str = "", config: Path | None = None, settings: Mapping[str, str] | None = None
) -> tuple[NeuronSpec, tuple[Note, ...]]:
    """Make the requested spec, and notes on its assumed figures."""
    described = read_json_object(config) if config is not None else {}
    return SETTINGS.make(preset, described, config, settings)


def stored_spec(
    values: Mapping[str, Any],
    file: str,
    preset: str = "",
    config: Path | None = None,
    settings: Mapping[str, str] | None = None,
) -> NeuronSpec:
    """Return the spec stored in a compiled file, with changes that its program does not depend on.

    Raises FormatError (file), UsageError (another machine, unknown settings).
    """
    known = {each.name for each in fields(NeuronSpec)}
    if not known >= values.keys():
        unknown = str(min(values.keys() - known))[:60]
        raise FormatError(file, field=f"spec.{unknown}", expected="a known figure", found="an unknown one")
    spec = SETTINGS.validated(values, file)
    if preset:
        SETTINGS.check_preset(preset)
    if preset and PRESETS[preset].arch != spec.arch:
        raise UsageError(
            f"--preset {preset}: the file is compiled for {spec.arch}; compile the model again for {preset}"
        )
    described = read_json_object(config) if config is not None else {}
    changed = SETTINGS.change(spec, described, config, settings or {})
    for key in ("lnc", "dtype", "dge", "keep_fp32"):
        if getattr(changed, key) != getattr(spec, key):
            raise UsageError(
                f"--set {key}={getattr(changed, key)}: the file is compiled for "
                f"{key}={getattr(spec, key)}; compile the model again"
            )
    return changed
