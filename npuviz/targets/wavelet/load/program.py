"""Make the spec and the program of a compiled wafer."""

from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path

from npuviz.base.errors import TargetError
from npuviz.base.names import printable
from npuviz.program.graph import FUNCTION, Graph, Node
from npuviz.program.memory import MemoryMap
from npuviz.program.program import Note, Program
from npuviz.sim.latencies import spec_text
from npuviz.targets.wavelet.machine.payload import WaferPayload, fingerprint
from npuviz.targets.wavelet.spec import WaveletSpec, make_spec
from npuviz.targets.wavelet.view.listing import WaveletListing
from npuviz.targets.wavelet.wafer import HostCommand, Wafer


def make_program(
    wafer: Wafer, commands: Sequence[HostCommand] = (), title: str = "",
    settings: Mapping[str, str] | None = None, *, preset: str = "", config: Path | None = None,
    is_closed: bool = True,
) -> tuple[WaveletSpec, Program]:  # fmt: skip
    """Return the spec (by the wafer's architecture and `--set` pairs) and the program of a compiled wafer.

    is_closed  False for a host that will give commands while the machine runs
    Raises UsageError for an unknown setting or one of another architecture.
    """
    if preset and not preset.startswith(wafer.arch):
        raise TargetError(f"preset {preset} does not run programs compiled for {wafer.arch}")
    spec, notes = make_spec(preset or wafer.arch, config, settings)
    listing = WaveletListing(wafer)
    nodes = tuple(
        Node(number, function.name, FUNCTION, "", (), ())
        for number, (_, function) in enumerate(listing.functions)
    )
    payload = WaferPayload(wafer, tuple(commands), is_closed)
    warnings = tuple(Note("warning", "compiler", text) for text in wafer.warnings)
    program = Program(
        target="wavelet",
        title=printable(title or wafer.name),
        graph=Graph(wafer.name, nodes, (), (), ()),
        listing=listing,
        memory_map=MemoryMap(),
        notes=(*warnings, *notes),
        payload=payload,
        fingerprint=cache(partial(fingerprint, payload, spec_text(spec))),
    )
    return spec, program
