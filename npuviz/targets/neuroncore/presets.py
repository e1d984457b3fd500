"""Figures of the NeuronCore generations, each with its source; no other file repeats them.

Order of the four columns: NC-v1 (Inf1), NC-v2 (Trn1, Inf2), NC-v3 (Trn2), NC-v4 (Trn3). A figure whose
source begins with "Assumed" is not public; the program's notes say so.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

KIB = 1024
GIB = 1 << 30
_COUNT = 4


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of all generations.

    values   indexed by version - 1, in the unit of the field of NeuronSpec
    sources  sources of the values, indexed likewise
    """

    values: tuple[Any, ...]
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Preset:
    """A named machine: `arch` is its NeuronCore generation, `version` the generation's number."""

    text: str
    arch: str
    version: int


def _each(values: tuple[Any, ...], *sources: str) -> Figure:
    """Make a figure with one source for all generations, two (v1, the others), or one for each."""
    if len(sources) == 1:
        sources *= _COUNT
    elif len(sources) == 2:
        sources = (sources[0], *sources[1:] * (_COUNT - 1))
    return Figure(values, sources)


def _all(value: Any, source: str) -> Figure:
    return Figure((value,) * _COUNT, (source,) * _COUNT)


_V2_ELEMENT_NS = 16.0


def _rate(achieved: float, overlap: bool = False) -> float:
    """Compute the rate within elements (bytes/ns) at which 32 KiB in 4 elements achieve a rate in total.

    Ref: DMA-O, 1416 ns for 32 KiB on NC-v3 (23 B/ns) and the rates of the other generations.
    """
    elements = 0 if overlap else 5  # elements whose overhead adds to the bytes; one is the semaphore write
    return round((32 * KIB + 4) / (32 * KIB / achieved - elements * _V2_ELEMENT_NS), 2)


_OVERLAP = (
    "Assumed, from KDA's variants of silu and rope on trn2: kernels bound by DMA take the same time within "
    "6 % with elements of 512 bytes to 28 KiB; DMA-B: 4 KiB reach the full rate"
)


_V2_DMA_RATE = _rate(17)
_V1_CLOCK = "Assumed: 1 GHz; a row of the array every second cycle then gives the documented 16 TFLOPS"
_V1_LIKE_V2 = "Assumed: as NC-v2, no public figure"
_V4_LIKE_V3 = "Assumed: as NC-v3, no public figure"
_LIMITS = "SDK226 nc_matmul: K <= 128, stationary <= 128, moving <= 512"

FIGURES: Mapping[str, Figure] = {
    "pe_hz": _each((1_000_000_000, 2_800_000_000, 2_400_000_000, 2_400_000_000), _V1_CLOCK, "ARCH2-4"),
    "activation_hz": _each(
        (1_000_000_000, 1_400_000_000, 1_200_000_000, 1_200_000_000), _V1_CLOCK, "ARCH2-4"
    ),
    "pool_hz": _each((1_000_000_000, 1_400_000_000, 1_200_000_000, 1_200_000_000), _V1_CLOCK, "ARCH2-4"),
    "dve_hz": _each((1_000_000_000, 1_120_000_000, 960_000_000, 1_200_000_000), _V1_CLOCK, "ARCH2-4"),
    "sp_hz": _each(
        (1_000_000_000, 1_400_000_000, 1_200_000_000, 1_200_000_000),
        "Assumed: NC-v1 has no Sync engine; its DMA triggers are shown on a sequencer of that name",
        "Assumed: the Scalar engine's clock",
    ),
    "has_pool": _each((False, True, True, True), "HWDOC: Tensor, Vector and Scalar only", "HWDOC"),
    "sbuf_partition_bytes": _each(
        (192 * KIB, 192 * KIB, 224 * KIB, 256 * KIB),
        _V1_LIKE_V2,
        "ARCH2",
        "ARCH3",
        "ARCH4: 32 MiB, divided by 128 partitions",
    ),
    "sbuf_reserved_bytes": _each(
        (8, 8, 8, 8),
        "Assumed: as NC-v3",
        "Assumed: as NC-v3",
        "measured on a real NEFF: the last 8 bytes of every partition belong to the runtime",
        "Assumed: as NC-v3",
    ),
    "psum_partition_bytes": _each((16 * KIB,) * 4, _V1_LIKE_V2, "ARCH2-4: 2 MiB"),
    "psum_bank_bytes": _each((2 * KIB,) * 4, _V1_LIKE_V2, "ARCH2: 8 banks of 2 KiB"),
    "num_dma_engines": _each((3, 16, 16, 16), "HWDOC: 3 a core, 12 a chip", "DMA-O"),
    "max_queues": _each((1, 16, 16, 16), "NEFFDOC: num_queues must be 1", "NEFFDOC: at most 16"),
    "dma_peak_bytes_per_ns": _each(
        (4.47, _V2_DMA_RATE, _rate(23.1412, True), _rate(33, True)),
        "Assumed: the documented 50 GiB/s of device memory, divided by 12 engines",
        "DMA-O: 17 B/ns achieved, less the overhead of elements",
        "DMA-O: 1416 ns for 32 KiB in 4 elements and the semaphore write, less the overhead of elements",
        "DMA-O: 33 B/ns achieved, less the overhead of elements",
    ),
    "dma_element_ns": _each(
        (_V2_ELEMENT_NS,) * 4,
        _V1_LIKE_V2,
        "BENCH: profiles of bmm and matmul on trn1, 258 and 263 GB/s in elements of 4 KiB",
        "Assumed: as NC-v2",
        "Assumed: as NC-v2",
    ),
    "dma_elements_overlap": _each(
        (False, False, True, True),
        _V1_LIKE_V2,
        "BENCH: profiles of bmm and matmul on trn1, elements of 4 KiB are slower than larger ones",
        _OVERLAP,
        _V4_LIKE_V3,
    ),
    "dma_max_element_bytes": _all(64 * KIB, "DRV: at most 64 KiB a descriptor"),
    "dma_start_ns": _each((1300,) * 4, "Assumed: as later generations", "DMA-B: semaphore to start"),
    "has_hardware_dge": _each((False, False, True, True), "DGE: NC-v3 and later"),
    "dge_ns": _all(600, "DGE: about 600 ns an instruction"),
    "software_dge_ns": _all(1200, "Assumed: twice the hardware's 600 ns; no public figure"),
    "has_dma_compute": _each((False, True, True, True), "NEFFDOC: op is not on Inf1", "NEFFDOC"),
    "dma_compute_rate": _each(
        (0.5, 0.5, 0.5, 1.0), "Assumed: no DMA arithmetic on NC-v1", "ARCH3", "ARCH3", "ARCH4"
    ),
    "dma_transpose_rate": _each(
        (0.5, 0.5, 0.9, 0.9),
        "Assumed: half the copy rate",
        "Assumed: half the copy rate",
        "ARCH3: up to 90 % of copies",
        "Assumed: as NC-v3",
    ),
    "num_semaphores": _each((32, 256, 256, 256), "DRV", "DRV", "DRV", _V4_LIKE_V3),
    "num_events": _each((256, 256, 256, 256), "DRV", "DRV", "DRV", _V4_LIKE_V3),
    "matmul_max_contraction": _each((128,) * 4, _V1_LIKE_V2, _LIMITS),
    "matmul_max_stationary": _each((128,) * 4, _V1_LIKE_V2, _LIMITS),
    "matmul_max_moving": _each(
        (512, 512, 512, 8192),
        _V1_LIKE_V2,
        _LIMITS,
        _LIMITS,
        "SDK nc_matmul: 4096 to fp32, 8192 to bf16, which is all of PSUM",
    ),
    "matmul_row_cycles": _each((2, 1, 1, 1), _V1_CLOCK, "SDK226: max(min(64, Ns), Nm) cycles"),
    "matmul_fp32_passes": _each((4, 4, 4, 4), _V1_LIKE_V2, "SDK226: fp32 takes 4 times as long"),
    "pe_ramp_ns": _each(
        (0.0, 0.0, 3000.0, 3000.0),
        _V1_LIKE_V2,
        "EXPL glossary: dI/dt throttling is named for Trn2 and Trn3 only",
        "EXPL glossary: full utilization after the first 3 microseconds or so",
        "EXPL glossary: as NC-v3",
    ),
    "pe_ramp_share": _each(
        (0.5,) * 4,
        _V1_LIKE_V2,
        "not used",
        "EXPL glossary: PE starts at about 50 %, and again when it falls below 50 % in such a time",
        "EXPL glossary: as NC-v3",
    ),
    "kernel_turns_wait": _each(
        (0, 0, 0, 0),
        _V1_LIKE_V2,
        "Assumed, from a search on trn1 (autocomp, mamba): 0.362 ms, 0.363 so, 0.50 if turns waited",
        "Assumed, from KDA on trn2: rope's first kernel, and mamba whose time does not depend on its width",
        "Assumed: as NC-v3",
    ),
    "kernel_buffers": _each(
        (2, 2, 3, 3),
        _V1_LIKE_V2,
        "Assumed, from BENCH on trn1: silu waits for its loads about as long as two places make it wait",
        "Assumed, from KDA on trn2: DMA bounds adamw in columns of 576 to 912, with two places latency would",
        "Assumed: as NC-v3",
    ),
    "kernel_unrolled_places": _each(
        (0, 0, 1, 1),
        _V1_LIKE_V2,
        "Assumed: no profile of trn1 has an unrolled loop",
        "Assumed, from KDA on trn2: mamba's unrolled kernels take as long as three places make them take",
        "Assumed: as NC-v3",
    ),
    "kernel_plan_engines": _each(
        (0, 0, 1, 1),
        _V1_LIKE_V2,
        "Assumed: on trn1 Scalar and Vector share nothing (see nki/engine_choice.py)",
        "Assumed, from KDA on trn2: bmm_softmax overlaps copies, reductions and activations of several turns",
        "Assumed: as NC-v3",
    ),
    "kernel_turns": _each(
        (2, 2, 0, 0),
        _V1_LIKE_V2,
        "Assumed, from BENCH on trn1: rmsnorm_matmul takes 1.06 ms, 0.83 if engines looked further",
        "Assumed, from KDA on trn2: rmsnorm_matmul transposes on Vector while PE works for the turn before",
        "Assumed: as NC-v3",
    ),
    "kernel_hoist": _each(
        (1, 1, 0, 0),
        _V1_LIKE_V2,
        "Assumed, from BENCH on trn1: bmm turns each left operand once, mamba reads u once, rmsnorm_matmul w",
        "Assumed, from KDA on trn2: bmm's first kernel runs all of its 2,048 transposes",
        "Assumed: as NC-v3",
    ),
    "kernel_share_loads": _each(
        (1, 1, 2, 2),
        _V1_LIKE_V2,
        "Assumed, from BENCH on trn1: rope as a search wrote it loads everything twice, and reads 268.4 MB; "
        "rmsnorm_matmul loads x for two loops, and reads it nearly twice",
        "Assumed, from KDA on trn2: rmsnorm_matmul_probe_loadtranspose loads x twice, and reads 25 MB in all",
        "Assumed: as NC-v3",
    ),
    "kernel_rows_in_psum": _each(
        (1, 1, 1, 1),
        _V1_LIKE_V2,
        "Assumed, from a search on trn1 (autocomp, mamba): 0.362 ms, 0.363 so, 0.49 if rows were copied",
        "Assumed, from KDA on trn2: Scalar works half as long in mamba with rows of 512 columns",
        "Assumed: as NC-v3",
    ),
    "has_bias_immediate": _each(
        (False, False, True, True),
        "Assumed: as NC-v2",
        "SDK isa",
        "SDK isa: scalar bias from NC-v3 on",
        "SDK isa",
    ),
    "has_reciprocal_bias": _each(
        (False, False, True, True),
        "Assumed: as NC-v2",
        "SHARED: reciprocal takes no bias",
        "SHARED",
        "SHARED",
    ),
    "has_core_barrier": _each((False, False, True, True), "SDK isa: NC-v3 and later"),
    "max_lnc": _each((1, 1, 2, 2), "SDK: LNC 2 on Trn2 and Trn3"),
    "pe_latency": _all(128, "Assumed: the depth of the array, one cycle a row"),
    "activation_latency": _each(
        (200,) * 4,
        _V1_LIKE_V2,
        "PERF: dependent one-element instructions start 264 cycles apart, 64 of them issue",
        "Assumed: as NC-v2 in cycles",
        "Assumed: as NC-v2 in cycles",
    ),
    "pool_latency": _all(100, "Assumed: as the Vector engine"),
    "dve_latency": _each(
        (100,) * 4,
        _V1_LIKE_V2,
        "ARCH2: about 100 static cycles",
        "Assumed: as NC-v2 in cycles",
        "Assumed: as NC-v2 in cycles",
    ),
    "dve_tiny_cycles": _each(
        (0, 0, 100, 100),
        _V1_LIKE_V2,
        "autocomp, profile of conv1d on trn1: 65,536 tensor_tensor of 3 elements take 3.84 ms, 66 cycles "
        "each, 16,384 tensor_reduce of 12 take 1.03 ms, 70 each; ARCH2 says about 100 static cycles more",
        "ARCH2: about 100 static cycles; KDA has about 180 in all for each transpose of 32 x 32",
        _V4_LIKE_V3,
    ),
    "sp_latency": _all(0, "Assumed: the Sync engine has no datapath"),
    "table_load_ns": _all(
        1212, "Assumed: 32,960 bytes of a table set (measured) at the peak rate of one DMA engine"
    ),
    "hbm_bytes": _each(
        (2 * GIB, 16 * GIB, 12 * GIB, 18 * GIB), "HWDOC: device memory of the chip, divided by its cores"
    ),
    "hbm_bytes_per_ns": _each(
        (13.4, 410.0, 362.5, 612.5), "HWDOC: bandwidth of the chip, divided by its cores"
    ),
    "host_call_ns": _all(10_000, "Assumed: a call of the runtime and back"),
    "host_bytes_per_ns": _all(16.0, "Assumed: what a host processor reads and writes"),
    "host_operator_ns": _all(1000, "Assumed: an inference runtime goes to its next operator"),
    "host_operations_per_ns": _all(92.8, "Assumed: one core, two 256-bit multiply-adds a cycle at 2.9 GHz"),
    "host_processor": _all("x86-64 with AVX2 at 2.9 GHz", "Assumed: a core of the instance; not published"),
}
"""{field of NeuronSpec: its figures}."""

PRESETS: Mapping[str, Preset] = {
    "trn2": Preset("Trainium2: NeuronCore-v3, PE 2.4 GHz, 28 MiB SBUF, hardware DGE", "trn2", 3),
    "trn1": Preset("Trainium: NeuronCore-v2, PE 2.8 GHz, 24 MiB SBUF", "trn1", 2),
    "inf2": Preset("Inferentia2: the same NeuronCore-v2 as Trainium", "trn1", 2),
    "trn3": Preset("Trainium3: NeuronCore-v4, PE 2.4 GHz, 32 MiB SBUF", "trn3", 4),
    "inf1": Preset("Inferentia: NeuronCore-v1; most figures are assumed", "inf1", 1),
}
"""Machines by name; the first is the default."""


def figures(version: int) -> dict[str, Any]:
    """Return {field: value} of a NeuronCore version (1..4)."""
    return {name: figure.values[version - 1] for name, figure in FIGURES.items()}


def sources(version: int) -> dict[str, str]:
    """Return {field: source} of a NeuronCore version (1..4)."""
    return {name: figure.sources[version - 1] for name, figure in FIGURES.items()}
