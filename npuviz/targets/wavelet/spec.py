"""Define the configuration of a wafer: each figure with its source, presets, and changes by settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le

from npuviz.base.errors import UsageError
from npuviz.base.names import is_number
from npuviz.formats.json_text import read_json_object
from npuviz.program.program import Note
from npuviz.sim.latencies import MOST_SEED
from npuviz.sim.settings import SpecSettings
from npuviz.sim.target import LoadRequest, Setting
from npuviz.targets.wavelet.costs import (
    COSTS,
    MATH,
    RATES,
    Rate,
    instruction_names,
    math_names,
    operation_names,
)

Cycles = Annotated[int, Ge(0), Le(10_000)]
Words = Annotated[int, Ge(1), Le(64)]

SOURCES: Mapping[str, str] = {
    "clock_hz": "EX: example scripts divide by 850 MHz",
    "hop": "FAB: 2.000 cycles (WSE-3); HPDC: 1 (WSE-2)",
    "link_interval": "FAB: 1.001 cycles a wavelet in the vendor simulator, 1.125 on silicon",
    "turn": "FAB: +33 cycles in the vendor simulator, +20 on silicon, for a change of direction",
    "ramp": "HPDC: about 2 cycles",
    "buffer_words": "Assumed: 4 words per color and port",
    "output_latency": "FAB: 7 cycles from dispatch to the link, less the ramp (WSE-3); HPDC: a chain of PEs "
    "takes twice the ramp, a cycle and a hop each (WSE-2)",
    "load_use": "FAB: 4 cycles from a DSR load to its use",
    "drain": "FAB: the instruction after a DSD operation that needs its end, 6 cycles after its last step",
    "complete": "FAB: results 2 cycles after the last step",
    "branch": "FAB: 3 cycles not taken",
    "branch_taken": "FAB: 6 cycles taken",
    "float_wait": "FAB: a dependent floating-point pair issues 2 cycles apart",
    "task_start": "FAB: 3 cycles from the last wavelet to the task, less the ramp",
    "timer_read": "FAB: cost lines with and without timer reads differ by 4 cycles",
    "stride_rule": "APP gives widths by stride (WSE-2); FAB measured 8 / stride (WSE-3)",
    "load_wait": "FAB: totals of loops over arrays: a value loaded through a register is waited for 2 cycles",
    "host_setup": "Assumed: 100 cycles a command",
    "host_word": "Assumed: 1 cycle a word and PE of a row",
    "host_launch": "Assumed: 20 cycles to start a function",
    "settle": "Assumed: the chip is watched 20000 cycles after the last command at most",
    "fmacs_fused": "A public stencil that checks every bit: product and sum are rounded; fmach once (FAB)",
    "divide_constant": "Assumed: a product with the inverse and shifts, as compilers do; powers of two 1",
    "print_cost": "Assumed: a character takes an instruction",
}
"""Where each figure is from; "Assumed" where no public source was found."""


@dataclass(frozen=True, slots=True)
class WaveletSpec:
    """The configuration of one wafer: every field can be set, times are in cycles, sources are in SOURCES.

    figures       whose measurements apply: the vendor's simulator ("sim") or silicon
    costs, rates  changes of the tables: "div=40,add=1" (cycles), "fmacs=1/2" (elements / cycles per step)
    watch         PEs that have tracks: "all", "corner" (the first 64), or "0,0:4,4:1,3" (program coordinates)
    trail         wavelet hops that are remembered
    limit         cycles after which a run counts as endless
    latency_seed  0: the times given here; else links, ramps, tasks, operations and launches take longer by
                  pseudo-random times, see kernels/jitter.py
    """

    arch: Literal["wse2", "wse3"]
    hop: Annotated[int, Ge(1), Le(30)]
    turn: Cycles
    stride_rule: Literal["documented", "8/stride"]
    figures: Literal["sim", "silicon"] = "sim"
    clock_hz: Annotated[int, Ge(1_000_000), Le(100_000_000_000)] = 850_000_000
    link_interval: Annotated[float, Ge(1), Le(64)] = 1.0
    ramp: Annotated[int, Ge(1), Le(30)] = 2
    buffer_words: Words = 4
    output_latency: Annotated[int, Ge(1), Le(30)] = 5
    load_use: Cycles = 4
    drain: Cycles = 6
    complete: Cycles = 2
    branch: Annotated[int, Ge(1), Le(100)] = 3
    branch_taken: Annotated[int, Ge(1), Le(100)] = 6
    float_wait: Annotated[int, Ge(1), Le(100)] = 2
    task_start: Annotated[int, Ge(1), Le(30)] = 1
    timer_read: Annotated[int, Ge(1), Le(100)] = 4
    load_wait: Cycles = 2
    divide_constant: Cycles = 4
    print_cost: Annotated[int, Ge(1), Le(10_000)] = 1
    fmacs_fused: bool = False
    host_setup: Annotated[int, Ge(1), Le(1_000_000)] = 100
    host_word: Annotated[int, Ge(1), Le(1000)] = 1
    host_launch: Annotated[int, Ge(1), Le(1000)] = 20
    settle: Annotated[int, Ge(1), Le(1 << 40)] = 20_000
    load_window: Annotated[int, Ge(16), Le(1 << 20)] = 512
    trail: Annotated[int, Gt(0), Le(1 << 22)] = 4096
    limit: Annotated[int, Ge(1), Le(1 << 50)] = 1_000_000_000
    latency_seed: Annotated[int, Ge(0), Le(MOST_SEED)] = field(default=0, repr=False)
    watch: str = ""
    costs: str = ""
    rates: str = ""

    @property
    def input_words(self) -> tuple[int, ...]:
        """Capacity of each input queue in words. Ref: DSD, wavelet-fabric.md section 4."""
        return (6, 6, 4, 4, 2, 2, 2, 2) if self.arch == "wse2" else (8, 8, 4, 4, 4, 4, 4, 4)

    @property
    def output_words(self) -> tuple[int, ...]:
        """Capacity of each output queue in words; WSE-2 has six of them."""
        return (2, 2, 6, 6, 2, 2) if self.arch == "wse2" else (8,) * 8

    def rate_of(self, name: str) -> Rate:
        """Return the rate of a DSD operation, as changed by the setting `rates`."""
        changed = _pairs(self.rates, "rates").get(name)
        base = RATES[self.arch, self.figures][name]
        if changed is None:
            return base
        elements, _, cycles = changed.partition("/")
        return Rate(int(elements), int(cycles or 1), base.reduce, "assumed", "--set rates")

    def cost_of(self, name: str) -> int:
        """Return the cycles of a scalar instruction or a function of OP_MATH, as changed by `costs`."""
        changed = _pairs(self.costs, "costs").get(name)
        if changed is not None:
            return int(changed)
        return (COSTS[name] if name in COSTS else MATH[name]).cycles


def _pairs(text: str, key: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = part.partition("=")
        known = operation_names() if key == "rates" else {**instruction_names(), **math_names()}
        numbers = value.split("/")
        good = all(is_number(n, 5) and (key == "costs" or int(n) > 0) for n in numbers)
        if name not in known or not good or len(numbers) > (2 if key == "rates" else 1):
            wanted = "name=elements/cycles" if key == "rates" else "name=cycles"
            raise UsageError(f"--set {key}={part[:60]}: expected {wanted} with the name of an operation")
        found[name] = value
    return found


def _problem(spec: WaveletSpec) -> str:
    try:
        _pairs(spec.rates, "rates")
        _pairs(spec.costs, "costs")
    except UsageError as error:
        return str(error).removeprefix("--set ")
    return ""


PRESETS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "wse3": (
        "WSE-3: figures of the vendor's simulator",
        {"arch": "wse3", "hop": 2, "turn": 33, "stride_rule": "8/stride"},
    ),
    "wse2": (
        "WSE-2: documented widths, one cycle a hop",
        {"arch": "wse2", "hop": 1, "turn": 0, "stride_rule": "documented", "output_latency": 1},
    ),
    "wse3-silicon": (
        "WSE-3: figures measured on a CS-3",
        {"arch": "wse3", "hop": 2, "turn": 20, "stride_rule": "8/stride", "figures": "silicon",
         "link_interval": 1.125},
    ),
}  # fmt: skip
"""Name -> one-line description and values. Ref: SOURCES."""

SETTINGS = SpecSettings(
    WaveletSpec,
    {name: values for name, (_, values) in PRESETS.items()},
    problem=_problem,
    sources=lambda _: SOURCES,
)


def make_spec(
    preset: str = "", config: Path | None = None, settings: Mapping[str, str] | None = None
) -> tuple[WaveletSpec, tuple[Note, ...]]:
    """Return the spec that the user asked for, and notes on the figures that are assumed."""
    described = read_json_object(config) if config is not None else {}
    return SETTINGS.make(preset, described, config, settings)


def list_settings(request: LoadRequest) -> tuple[Setting, ...]:
    """Return every setting with its value and the source of the value. Raises as `make_spec`."""
    described = read_json_object(request.config) if request.config is not None else {}
    return SETTINGS.rows(request, described, is_decided_by_file=True)
