"""The wavelet target: CSL programs on a grid of processing elements with routers (WSE-2, WSE-3)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuviz.base.errors import TargetError
from npuviz.base.names import printable
from npuviz.base.progress import Progress
from npuviz.program.program import Note, Program
from npuviz.sim.machine import Machine
from npuviz.sim.target import CheckResult, LoadRequest
from npuviz.targets.wavelet.spec import PRESETS, WaveletSpec, make_spec

if TYPE_CHECKING:
    from npuviz.targets.wavelet.wafer import HostCommand, Wafer

# What compiles, runs or checks is imported where it is used: every target is loaded to find the one that
# takes a file.


class WaveletTarget:
    """Stateless; see npuviz.sim.target.Target for the contract."""

    id = "wavelet"
    title = "Wavelet fabric (CSL on WSE-2, WSE-3)"
    presets: Mapping[str, str] = {name: text for name, (text, _) in PRESETS.items()}
    file_kinds: Mapping[str, str] = {
        ".csl": "CSL layout",
        ".npuwafer": "compiled wafer",
    }

    def accepts(self, path: Path, head: bytes) -> bool:
        """CSL layouts and the files of a compiled folder."""
        from npuviz.targets.wavelet.load.loader import accepts

        return accepts(path, head)

    def accepts_folder(self, path: Path) -> bool:
        """Compiled folders, and folders with command scripts."""
        from npuviz.targets.wavelet.load.loader import accepts_folder

        return accepts_folder(path)

    def locate(self, name: str, config: Path | None) -> Path | None:
        """There is no home folder of programs."""
        return None

    def load(self, request: LoadRequest, progress: Progress) -> tuple[Any, Program]:
        """Compile, or read what is compiled, with the recorded commands of its host; see the contract."""
        from npuviz.targets.wavelet.load.loader import is_own_setting, open_program

        own = {key: value for key, value in request.settings.items() if is_own_setting(key)}
        rest = {key: value for key, value in request.settings.items() if key not in own}
        opened = open_program(request.path, own, progress)
        spec, program = make_program(
            opened.wafer, opened.commands, opened.title, rest, preset=request.preset, config=request.config
        )
        return spec, replace(program, notes=(*opened.notes, *program.notes))

    def build(self, spec: Any, program: Program) -> Machine:
        """A machine at cycle 0."""
        from npuviz.targets.wavelet.machine.machine import WaveletMachine

        return WaveletMachine(spec, program)

    def check(self, machine: Machine, progress: Progress) -> CheckResult:
        """The host program of a wafer checks its results itself."""
        raise TargetError("values are checked by the program's own host script (cs_python run.py)")

    def warm_up(self, progress: Progress) -> None:
        """Compile the kernels, or load them from the cache: runs an empty wafer."""
        from npuviz.targets.wavelet.machine.warm_up import warm_up

        warm_up(progress)


def make_program(
    wafer: "Wafer", commands: "Sequence[HostCommand]" = (), title: str = "",
    settings: Mapping[str, str] | None = None, *, preset: str = "", config: Path | None = None,
    is_closed: bool = True,
) -> tuple[WaveletSpec, Program]:  # fmt: skip
    """Spec (by the wafer's architecture and `--set` pairs) and program of a compiled wafer.

    is_closed  False for a host that will give commands while the machine runs
    Raises UsageError for an unknown setting or one of another architecture.
    """
    from npuviz.program.graph import Graph, Node
    from npuviz.program.memory import MemoryMap
    from npuviz.targets.wavelet.machine.payload import WaferPayload, fingerprint
    from npuviz.targets.wavelet.view.listing import WaveletListing

    if preset and not preset.startswith(wafer.arch):
        raise TargetError(f"preset {preset} does not run programs compiled for {wafer.arch}")
    spec, notes = make_spec(preset or wafer.arch, config, settings)
    listing = WaveletListing(wafer)
    nodes = tuple(
        Node(number, function.name, "function", "", (), ())
        for number, (_, function) in enumerate(listing.functions)
    )
    payload = WaferPayload(wafer, tuple(commands), is_closed)
    warnings = tuple(Note("warning", "compiler", text) for text in wafer.warnings)
    program = Program(
        target=WaveletTarget.id,
        title=printable(title or wafer.name),
        graph=Graph(wafer.name, nodes, (), (), ()),
        listing=listing,
        memory_map=MemoryMap(),
        notes=(*warnings, *notes),
        payload=payload,
        fingerprint=fingerprint(payload, repr(spec)),
    )
    return spec, program


TARGET = WaveletTarget()
