"""Hold what a program of this target carries for its machine, and compute a fingerprint of it."""

import hashlib
from dataclasses import dataclass

import numpy as np

from npuviz.targets.wavelet.wafer import HostCommand, Wafer


@dataclass(frozen=True)
class WaferPayload:
    """A compiled wafer and the commands of its host, in order.

    is_closed  whether no more commands will come: the machine finishes when all are done and nothing moves
    """

    wafer: Wafer
    commands: tuple[HostCommand, ...] = ()
    is_closed: bool = True


def code_tables(wafer: Wafer) -> tuple[tuple[np.ndarray, ...], tuple[int, ...]]:
    """Return the distinct code arrays and, per program, the index of its array: programs may share one."""
    found: list[np.ndarray] = []
    index_of: dict[int, int] = {}
    of_program: list[int] = []
    for program in wafer.programs:
        key = id(program.code)
        if key not in index_of:
            index_of[key] = len(found)
            found.append(program.code)
        of_program.append(index_of[key])
    return tuple(found), tuple(of_program)


def fingerprint(payload: WaferPayload, spec_text: str) -> str:
    """Return a digest of everything that decides a run: code, data, routes, commands, figures."""
    digest = hashlib.blake2b(spec_text.encode(), digest_size=16)
    wafer = payload.wafer
    digest.update(f"{wafer.arch} {wafer.columns} {wafer.rows} {wafer.offset} {payload.is_closed}".encode())
    digest.update(np.ascontiguousarray(wafer.program_of).tobytes())
    tables, of_program = code_tables(wafer)
    for code in tables:
        digest.update(np.ascontiguousarray(code).tobytes())
    for program, code in zip(wafer.programs, of_program, strict=True):
        digest.update(f"{code} {program.functions} {program.tasks} {program.queues}".encode())
        digest.update(f"{program.dsrs} {program.activated} {program.blocked} {program.channels}".encode())
        digest.update(f"{program.fifos} {program.priorities} {program.unblocked} {program.half}".encode())
        if program.config:
            digest.update(f"{program.config}".encode())
        for array in (program.operations, program.shapes, program.image):
            digest.update(np.ascontiguousarray(array).tobytes())
    for place, channels in sorted(wafer.channels.items()):
        digest.update(f"{place}{channels}".encode())
    for command in payload.commands:
        digest.update(f"{command.kind}{command.subject}{command.region}{command.words}".encode())
        if command.data is not None:
            digest.update(np.ascontiguousarray(command.data).tobytes())
    return digest.hexdigest()
