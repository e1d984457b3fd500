"""The RK3588 target: ONNX models, register command streams and .rknn files on the RK3588 NPU."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from npuviz.base.errors import TargetError, UsageError
from npuviz.base.names import printable
from npuviz.base.progress import Progress
from npuviz.formats.layer_times import beside, read_layer_times
from npuviz.onnx.inputs import draw_inputs
from npuviz.onnx.reader import read_model
from npuviz.program.program import Note, Program
from npuviz.sim.machine import Machine
from npuviz.sim.target import CheckResult, LoadRequest
from npuviz.targets.rk3588.compiler.compiled import Compiled
from npuviz.targets.rk3588.machine.payload import Payload, fingerprint
from npuviz.targets.rk3588.spec import PRESETS, SETTINGS, RknnSpec, make_spec

_STREAMS = (".regcmd", ".rknn")


class RknnTarget:
    """Stateless; see npuviz.sim.target.Target for the contract."""

    id = "rk3588"
    title = "RK3588 NPU (register commands)"
    presets: Mapping[str, str] = {name: text for name, (text, _) in PRESETS.items()}
    file_kinds: Mapping[str, str] = {
        ".rknn": "RKNN file, version 6",
        ".regcmd": "register command stream",
        ".txt": "register command stream as text (.regcmd.txt)",
        ".onnx": "ONNX model, compiled",
    }
    compiled_kinds: Mapping[str, str] = {
        ".regcmd": "register command streams, binary",
        ".regcmd.txt": "register command streams, one word a line",
    }

    def accepts(self, path: Path, head: bytes) -> bool:
        """RKNN files and streams by name; ONNX models only when this target is asked for."""
        name = path.name.lower()
        return name.endswith((*_STREAMS, ".regcmd.txt")) or head[:4] == b"RKNN"

    def locate(self, name: str, config: Path | None) -> Path | None:
        """There is no home folder of models."""
        return None

    def load(self, request: LoadRequest, progress: Progress) -> tuple[Any, Program]:
        """Read, and compile what is not compiled yet; see the contract."""
        spec, notes, compiled = _compiled(request, progress)
        return spec, _program(request, spec, notes, compiled)

    def compile(self, request: LoadRequest, out: Path, progress: Progress) -> str:
        """Write a model's register command streams; returns a sentence about them."""
        from npuviz.targets.rk3588.compiler.writer import write_compiled

        _, _, compiled = _compiled(request, progress)
        return write_compiled(compiled, out)

    def build(self, spec: Any, program: Program) -> Machine:
        """A machine at cycle 0."""
        from npuviz.targets.rk3588.machine.machine import RknnMachine

        return RknnMachine(spec, program)

    def check(self, machine: Machine, progress: Progress) -> CheckResult:
        """Compare every computed tensor with ONNX Runtime."""
        from npuviz.targets.rk3588.check import check
        from npuviz.targets.rk3588.machine.machine import RknnMachine

        assert isinstance(machine, RknnMachine)
        if not machine.program.graph.source:
            raise TargetError("values cannot be checked: there is no ONNX model to compare with")
        return check(
            machine.values(), machine.program.graph, machine.log()[:, 0], machine.engine.spec, progress
        )

    def warm_up(self, progress: Progress) -> None:
        """Compile the kernels, or load them from the cache: runs a program without tasks."""
        from npuviz.targets.rk3588.machine.warm_up import warm_up

        warm_up(progress)


def _compiled(request: LoadRequest, progress: Progress) -> tuple[RknnSpec, tuple[Note, ...], Compiled]:
    own = {key: value for key, value in request.settings.items() if key in SETTINGS.names}
    spec, notes = make_spec(request.preset, request.config, own)
    rest = {key: value for key, value in request.settings.items() if key not in own}
    if request.path.suffix.lower() == ".onnx":
        from npuviz.targets.rk3588.compiler.compile import compile_graph

        dimensions: dict[str, int] = {}
        for name, text in rest.items():
            try:
                dimensions[name] = int(text)
            except ValueError:
                raise SETTINGS.unknown(name) from None
        graph = read_model(request.path, dimensions, optimize=True, progress=progress)
        return spec, notes, compile_graph(graph, spec, progress)
    for name in rest:
        raise SETTINGS.unknown(name)
    from npuviz.targets.rk3588.load.loader import load_file

    return spec, notes, load_file(request.path, spec)


def _program(request: LoadRequest, spec: RknnSpec, notes: tuple[Note, ...], compiled: Compiled) -> Program:
    from npuviz.targets.rk3588.view.listing import RknnListing

    graph = compiled.graph
    if request.inputs and not graph.inputs:
        raise UsageError("--input: the file does not name its inputs")
    table = beside(request.path)
    measured = read_layer_times(table) if table is not None else {}
    payload = Payload(compiled.tables, draw_inputs(graph, request.inputs, request.seed), measured)
    assumed = tuple(Note("warning", "assumed", text) for text in graph.assumptions)
    return Program(
        target=RknnTarget.id,
        title=printable(request.path.name.split(".")[0]),
        graph=graph,
        listing=RknnListing(compiled.tables, spec),
        memory_map=compiled.memory_map,
        notes=(*notes, *assumed, *compiled.notes),
        placement=compiled.placement,
        payload=payload,
        fingerprint=fingerprint(payload, graph, repr(spec)),
    )


TARGET = RknnTarget()
