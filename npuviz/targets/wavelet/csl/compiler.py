"""Compile a CSL program to a wafer: front end, lowering of every PE program, tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from npuviz.base.collection import no_collection
from npuviz.targets.wavelet.csl import frontend
from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.session import FP16_FORMATS
from npuviz.targets.wavelet.csl.frontend import Elaboration, PeCode
from npuviz.targets.wavelet.csl.lower import free_names
from npuviz.targets.wavelet.csl.lower.body import Bodies
from npuviz.targets.wavelet.csl.lower.data_memory import RUNTIME_BYTES, DataMemory
from npuviz.targets.wavelet.csl.lower.memo import FunctionMemo
from npuviz.targets.wavelet.csl.lower.pe import PeLowering
from npuviz.targets.wavelet.csl.lower.program import draft, finish
from npuviz.targets.wavelet.csl.lower.wafer_tables import WaferTables
from npuviz.targets.wavelet.csl.syntax import tree
from npuviz.targets.wavelet.wafer import PeProgram, Wafer


def compile_program(
    path: Path,
    arch: str,
    *,
    params: Mapping[str, int] | None = None,
    colors: Mapping[str, int] | None = None,
    fabric: tuple[int, int] = (0, 0),
    offset: tuple[int, int] = (4, 1),
    import_paths: Sequence[Path] = (),
    fp16: str = "f16",
    say: Callable[[str], None] | None = None,
    reserved: int = RUNTIME_BYTES,
) -> Wafer:
    """Compile the program whose layout is in `path`; `say` receives the lines of `@comptime_print`.

    reserved  bytes of a PE's memory that the runtime library takes

    Raises SourceError for anything wrong in the texts, DoesNotFit if data exceed a PE's memory.
    """
    with no_collection():
        elaboration = frontend.elaborate(
            path,
            arch,
            params=params,
            colors=colors,
            import_paths=import_paths,
            fabric=fabric,
            offset=offset,
            fp16=fp16,
        )
        if say is not None:
            for line in elaboration.prints:
                say(line)
        return lower_wafer(elaboration, path.name, FP16_FORMATS[fp16], reserved)


def lower_wafer(
    elaboration: Elaboration, name: str, half: t.Type = t.F16, reserved: int = RUNTIME_BYTES
) -> Wafer:
    """Lower all PE programs of an elaborated layout."""
    session = elaboration.comptime.session
    known = len(session.warnings)
    with frontend.deep_calls(elaboration.files):
        programs = lower_programs(elaboration, elaboration.codes, half, reserved)
    program_of = np.full((elaboration.rows, elaboration.columns), -1, np.int32)
    for number, code in enumerate(elaboration.codes):
        for column, row in code.coordinates:
            program_of[row, column] = number
    return Wafer(
        name=name,
        arch=elaboration.arch,
        columns=elaboration.columns,
        rows=elaboration.rows,
        programs=programs,
        program_of=program_of,
        channels=elaboration.channels,
        fabric=elaboration.fabric,
        offset=elaboration.offset,
        files=tuple(file.path for file in elaboration.files),
        texts=tuple(file.text for file in elaboration.files),
        exported={name: (str(kind), mutable) for name, (kind, mutable) in elaboration.exported.items()},
        params=elaboration.params,
        warnings=(*elaboration.warnings, *frontend.warning_lines(session, session.warnings[known:])),
    )


def lower_programs(
    elaboration: Elaboration, codes: Sequence[PeCode], half: t.Type = t.F16, reserved: int = RUNTIME_BYTES
) -> tuple[PeProgram, ...]:
    """Lower PE programs that share their code tables."""
    tables, memo = WaferTables(), FunctionMemo()
    files: list[tree.SourceFile] = elaboration.files
    comptime = elaboration.comptime
    free_names.forget()
    drafts = []
    for code in codes:
        bodies = Bodies()
        comptime.runtime_type = bodies.type_of
        lowering = PeLowering(
            *(comptime, tables, memo, elaboration.arch, code.root, code.registry, files, bodies.lower), half
        )
        lowering.memory = DataMemory(reserved)
        name = Path(code.file).stem
        drafts.append(draft(lowering, f"{name} at PE {code.coordinates[0]}"))
    comptime.runtime_type = None
    frozen = tables.freeze()
    return tuple(finish(made, frozen) for made in drafts)
