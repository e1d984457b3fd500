"""The sample programs on the machine, with the commands that their host programs would give."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from benchmarks.stencil import write_stencil
from npuviz.base.progress import NoProgress
from npuviz.program.source import HasSource
from npuviz.sim.target import LoadRequest
from npuviz.targets.wavelet.csl.compiler import compile_program
from npuviz.targets.wavelet.load.program import make_program
from npuviz.targets.wavelet.machine.machine import WaveletMachine
from npuviz.targets.wavelet.target import TARGET
from npuviz.targets.wavelet.wafer import HOST_COPY_IN, HOST_COPY_OUT, HOST_LAUNCH, HostCommand, Wafer

SAMPLES = Path(__file__).parents[3] / "sample_models" / "csl"


def compiled(name: str, arch: str, width: int, height: int, **params: int) -> Wafer:
    """A sample program on a rectangle of this size."""
    return compile_program(
        SAMPLES / name / "layout.csl",
        arch,
        params={"width": width, "height": height, **params},
        colors={},
        fabric=(width + 7, height + 2),
        offset=(4, 1),
    )


def machine_of(
    wafer: Wafer, commands: list[HostCommand], settings: Mapping[str, str] | None = None
) -> WaveletMachine:
    """A machine at cycle 0 that these commands wait for."""
    machine = TARGET.build(*make_program(wafer, commands, wafer.name, settings))
    assert isinstance(machine, WaveletMachine)
    return machine


def row_sum(width: int = 3, height: int = 1, arch: str = "wse3") -> WaveletMachine:
    """PE (c, r) has the value width * r + c; command 2 brings the sums."""
    region = (0, 0, width, height)
    values = np.arange(width * height, dtype=np.float32).reshape(height, width, 1)
    commands = [
        HostCommand(HOST_COPY_IN, "value", region, 1, values.view(np.uint32)),
        HostCommand(HOST_LAUNCH, "sum"),
        HostCommand(HOST_COPY_OUT, "result", region, 1),
    ]
    return machine_of(compiled("row_sum", arch, width, height), commands)


def heat(
    width: int = 2, height: int = 2, cells: int = 4, steps: int = 2, arch: str = "wse3"
) -> WaveletMachine:
    """Cell z of PE (c, r) begins at 1 + c + 10 r + 100 z; command 2 brings the end."""
    region = (0, 0, width, height)
    rows, columns, depth = np.meshgrid(range(height), range(width), range(cells), indexing="ij")
    values = (1 + columns + 10 * rows + 100 * depth).astype(np.float32)
    arguments = np.array([steps, np.float32(0.125).view(np.uint32)], np.uint32)
    commands = [
        HostCommand(HOST_COPY_IN, "heat", region, cells, values.view(np.uint32)),
        HostCommand(HOST_LAUNCH, "spread", data=arguments),
        HostCommand(HOST_COPY_OUT, "heat", region, cells),
    ]
    return machine_of(compiled("heat", arch, width, height, cells=cells), commands)


def stencil(folder: Path, side: int, depth: int, rounds: int, **settings: str) -> WaveletMachine:
    """The stencil of the benchmarks on a square; its program is written into the folder."""
    params = f"side:{side},depth:{depth},rounds:{rounds}"
    request = LoadRequest(write_stencil(folder), settings={"arch": "wse3", "params": params, **settings})
    machine = TARGET.build(*TARGET.load(request, NoProgress()))
    assert isinstance(machine, WaveletMachine)
    return machine


def line_of(machine: WaveletMachine, text: str, file: str = "pe.csl", occurrence: int = 0) -> int:
    """Number of the line of a source that holds a text."""
    listing = machine.program.listing
    assert isinstance(listing, HasSource)
    lines = next(source.text for source in listing.sources if source.name == file).splitlines()
    return [number for number, line in enumerate(lines, 1) if text in line][occurrence]


def element_of(machine: WaveletMachine, column: int, row: int) -> int:
    """Number of the element at a place of the program."""
    area = machine.fabric.program
    return (area.row + row) * machine.fabric.columns + area.column + column
