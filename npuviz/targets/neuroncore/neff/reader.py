"""Read NEFF files whose programs are in npuviz's encoding, and make tables of them.

A file that npuviz wrote comes back as it was compiled. A file without npuviz's record (static
descriptors written by another tool) gives the machine program with a graph of inputs and outputs only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from npuviz.base.errors import FormatError, UsageError
from npuviz.formats.neff import model as nm
from npuviz.formats.neff.model import OWN_FOLDER, Neff
from npuviz.program.graph import Graph
from npuviz.program.memory import Allocation, MemoryMap
from npuviz.program.program import HostReason, Note
from npuviz.targets.neuroncore.compiler.compiled import Compiled, places_of
from npuviz.targets.neuroncore.isa import ENGINE_NAMES, INSTRUCTION_DTYPE, Engine, Opcode
from npuviz.targets.neuroncore.neff.decoding import Decoded, decode
from npuviz.targets.neuroncore.neff.descriptors import Names, read_transfers, with_dtypes
from npuviz.targets.neuroncore.neff.encoding import MARK, VERSION
from npuviz.targets.neuroncore.neff.record import (
    HOST,
    PROGRAM,
    guarded,
    parse_program,
    read_graph,
    read_npy,
)
from npuviz.targets.neuroncore.neff.variables import (
    names_of,
    plain_graph,
    plain_outputs,
    plain_variables,
    queue_sets_of,
    recorded_variables,
)
from npuviz.targets.neuroncore.neff.verifier import check_program, check_transfer
from npuviz.targets.neuroncore.presets import PRESETS
from npuviz.targets.neuroncore.spec import NeuronSpec, make_spec, stored_spec
from npuviz.targets.neuroncore.tables import (
    ALLOCATION_DTYPE,
    Piece,
    QueueSet,
    Tables,
    Transfer,
    Variable,
)


def has_own_encoding(neff: Neff) -> bool:
    """Return whether all programs are in npuviz's encoding, so that they can be run."""
    found = False
    for subgraph in neff.subgraphs:
        for name, file in subgraph.engines.items():
            if len(file.program) < 8:
                continue
            engine = ENGINE_NAMES.index(name)
            if file.program[1] != VERSION << 4 | engine or file.program[7] & 0xC0 != MARK:
                return False
            found = True
    return found


def neff_spec(
    neff: Neff,
    preset: str = "",
    config: Path | None = None,
    settings: Mapping[str, str] | None = None,
) -> tuple[NeuronSpec, tuple[Note, ...]]:
    """Return the machine of a file (the one it was compiled for, else its target's preset), and notes.

    Raises FormatError (file), UsageError (another machine, settings).
    """
    if PROGRAM in neff.members and has_own_encoding(neff):
        values = parse_program(neff.members, neff.name).get("spec")
        if not isinstance(values, dict):
            raise FormatError(neff.name, field=f"{PROGRAM}.spec", expected="an object", found="none")
        return stored_spec(values, neff.name, preset, config, settings), ()
    own = dict(settings or {})
    cores = len(neff.subgraphs)
    if own.get("lnc", str(cores)) != str(cores):
        raise UsageError(f"--set lnc={own['lnc'][:20]}: the file has {cores} subgraphs, one for each core")
    if cores > 1:
        own["lnc"] = str(cores)
    version = neff.generation
    names = [name for name, each in PRESETS.items() if each.version == version]
    return make_spec(preset or (names[0] if names and config is None else ""), config, own)


def load_compiled(neff: Neff, spec: NeuronSpec) -> Compiled:
    """Read the program of a file in npuviz's encoding. Raises FormatError if parts do not fit together."""
    return _Loader(neff, spec).run()


class _Loader:
    """Reads one file, and makes tables of it."""

    def __init__(self, neff: Neff, spec: NeuronSpec) -> None:
        self.neff, self.spec = neff, spec
        self.file = neff.name
        self.record = parse_program(neff.members, self.file) if PROGRAM in neff.members else None
        if len(neff.subgraphs) != spec.num_cores:
            raise FormatError(
                self.file,
                field="kelf-0.json.graphs",
                expected=f"{spec.num_cores} subgraphs, one for each core",
                found=str(len(neff.subgraphs)),
            )
        self.queue_sets: tuple[QueueSet, ...] = ()
        self.transfers: dict[tuple[int, int], Transfer] = {}

    def run(self) -> Compiled:
        """Read everything, with npuviz's record if the file has one."""
        record = self.record
        if record is None:
            variables = plain_variables(self.neff)
            graph, outputs = plain_graph(self.neff), plain_outputs(variables)
        else:
            members = self.neff.members
            variables = self._guarded(lambda: recorded_variables(self.neff, record["variables"]))
            data = {each.id: each.data for each in variables}
            graph = self._guarded(lambda: read_graph(record["graph"], members, data))
            outputs = {}
        self.queue_sets = self._queue_sets()
        programs = self._read_programs(variables, graph)
        tables = self._tables(variables, programs)
        if record is None:
            return Compiled(graph, replace(tables, outputs=outputs), places_of(self.spec, variables))
        return self._guarded(lambda: self._recorded(record, graph, tables))

    def _guarded(self, what: Any) -> Any:
        return guarded(what, self.file, PROGRAM)

    def _queue_sets(self) -> tuple[QueueSet, ...]:
        record = self.record
        if record is None:
            return queue_sets_of(self.neff)
        order = self._guarded(lambda: [(int(core), str(name)) for core, name, _ in record["queue_sets"]])
        found = queue_sets_of(self.neff, order)
        if sorted(order) != sorted((each.core, each.name) for each in queue_sets_of(self.neff)):
            raise FormatError(
                self.file, field=f"{PROGRAM}.queue_sets", expected="those of def.json", found="others"
            )
        return found

    # --- programs ------------------------------------------------------------------------------

    def _read_programs(self, variables: Sequence[Variable], graph: Graph) -> list[np.ndarray]:
        known = {each.id: each for each in variables}
        programs: list[np.ndarray] = []
        for core, subgraph in enumerate(self.neff.subgraphs):
            names = names_of(self.neff, core, variables, self.queue_sets, self.record is not None)
            for name in ENGINE_NAMES[:-1]:
                where = f"{self.file}, {subgraph.folder}/{name}"
                file = subgraph.engines.get(name, nm.EngineFile(name))
                decoded = decode(file.program, f"{where}.bin", Engine(ENGINE_NAMES.index(name)), core)
                self._check(decoded, f"{where}.bin", len(graph.nodes))
                static = read_transfers(file, core, names, f"{where}.json")
                self._add_transfers(decoded, static, core, names, where)
                programs.append(decoded.instructions)
        for transfer in self.transfers.values():
            check_transfer(transfer, known, self.spec, len(self.neff.subgraphs), self.file)
        host = self.neff.members.get(HOST, b"")
        decoded = decode(host, f"{self.file}, {HOST}", Engine.HOST)
        self._check(decoded, f"{self.file}, {HOST}", len(graph.nodes))
        return [*programs, decoded.instructions]

    def _check(self, decoded: Decoded, where: str, num_nodes: int) -> None:
        def fail(index: int, field: str, expected: str, found: str) -> NoReturn:
            raise FormatError(
                where, offset=int(decoded.offsets[index]), field=field, expected=expected, found=found
            )

        check_program(decoded.instructions, self.spec, num_nodes, fail)

    def _add_transfers(
        self, decoded: Decoded, static: Mapping[int, Transfer], core: int, names: Names, where: str
    ) -> None:
        """Add the static transfers that a program triggers, and the transfers of its DMA_COPYs."""
        code = decoded.instructions
        for index in np.flatnonzero(code["opcode"] == Opcode.DMA_TRIGGER).tolist():
            if int(code["id"][index]) not in static:
                raise FormatError(
                    f"{where}.bin",
                    offset=int(decoded.offsets[index]),
                    field="dma_trigger",
                    expected=f"an id of the dma list in {where.rpartition('/')[2]}.json",
                    found=str(int(code["id"][index])),
                )
        queues = sorted(each.name for each in self.queue_sets if each.core == core)
        for index, transfer in decoded.transfers.items():
            if transfer.queue >= len(queues):
                raise FormatError(
                    f"{where}.bin",
                    offset=int(decoded.offsets[index]),
                    field="queue",
                    expected=f"one of {len(queues)} queue sets",
                    found=str(transfer.queue),
                )
        copies = {
            transfer.id: replace(
                transfer,
                queue=names.queues[queues[transfer.queue]],
                descriptors=transfer.descriptors,
            )
            for transfer in decoded.transfers.values()
        }
        for number, transfer in (*static.items(), *copies.items()):
            if self.transfers.setdefault((core, number), transfer) != transfer:
                raise FormatError(
                    where, field=f"dma id {number}", expected="one transfer of this id in a core", found="two"
                )

    # --- tables --------------------------------------------------------------------------------

    def _tables(self, variables: Sequence[Variable], programs: Sequence[np.ndarray]) -> Tables:
        instructions = np.concatenate(programs) if programs else np.zeros(0, INSTRUCTION_DTYPE)
        ends = np.cumsum([len(each) for each in programs])
        sequencers = np.stack([ends - [len(each) for each in programs], ends], axis=1).astype(np.int64)
        order = list(self.transfers)
        transfers = list(self.transfers.values())
        if self.record is not None:
            order, transfers = self._guarded(self._ordered)
        place = {key: index for index, key in enumerate(order)}
        transfer_of = np.full(len(instructions), -1, np.int32)
        triggers = np.isin(instructions["opcode"], (Opcode.DMA_TRIGGER, Opcode.DMA_COPY))
        for index in np.flatnonzero(triggers).tolist():
            sequencer = int(np.searchsorted(sequencers[:, 1], index, side="right"))
            transfer_of[index] = place[sequencer // 5, int(instructions["id"][index])]
        nothing = np.full(len(instructions), -1, np.int32)
        return Tables(
            num_cores=len(self.neff.subgraphs),
            instructions=_frozen(instructions),
            sequencers=sequencers,
            nodes=_frozen(nothing),
            tiles=_frozen(nothing),
            transfer_of=_frozen(transfer_of),
            transfers=tuple(transfers),
            queue_sets=self.queue_sets,
            variables=tuple(variables),
        )

    def _ordered(self) -> tuple[list[tuple[int, int]], list[Transfer]]:
        """Return the transfers in the order of the record, with its element types."""
        record = self.record or {}
        order = [(int(core), int(number)) for core, number in record["transfers"]]
        if sorted(order) != sorted(self.transfers):
            raise ValueError("its transfers are not those of the engines")
        transfers = [self.transfers[key] for key in order]
        return order, with_dtypes(transfers, record["dtypes"]) if record["dtypes"] else transfers

    def _recorded(self, record: Mapping[str, Any], graph: Graph, tables: Tables) -> Compiled:
        """Add the facts that only the record has: nodes and tiles of instructions, outputs, notes."""
        columns: dict[str, np.ndarray] = {}
        for name, dtype in (("nodes", np.dtype(np.int32)), ("tiles", np.dtype(np.int32))):
            columns[name] = read_npy(self.neff.members[f"{OWN_FOLDER}{name}.npy"], dtype)
            if columns[name].shape != tables.instructions.shape:
                raise ValueError(f"{name}.npy has {columns[name].shape} rows")
        if len(columns["nodes"]) and not -1 <= columns["nodes"].min() <= columns["nodes"].max() < len(
            graph.nodes
        ):
            raise ValueError("nodes.npy names a node that the graph has not")
        allocations = read_npy(self.neff.members[f"{OWN_FOLDER}allocations.npy"], ALLOCATION_DTYPE)
        _check_allocations(allocations, tables, graph, self.spec)
        pieces = tuple(_piece(each, tables, graph) for each in record["pieces"])
        outputs = {int(tensor): int(variable) for tensor, variable in record["outputs"]}
        if not all(0 <= v < len(tables.variables) and t in graph.outputs for t, v in outputs.items()):
            raise ValueError("outputs name a tensor or variable that is not there")
        complete = replace(
            tables,
            **columns,
            allocations=allocations,
            pieces=pieces,
            outputs=outputs,
            semaphore_uses={(int(c), int(s)): str(use) for c, s, use in record["semaphore_uses"]},
        )
        places = tuple(Allocation(*(int(each) for each in place)) for place in record["places"])
        notes = tuple(_note(each) for each in record["notes"])
        placement = {int(node): str(group) for node, group in record["placement"]}
        return Compiled(graph, complete, MemoryMap(places), notes, placement)


def _frozen(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array


def _check_allocations(rows: np.ndarray, tables: Tables, graph: Graph, spec: NeuronSpec) -> None:
    count, cores = len(tables.instructions), tables.num_cores
    limit = np.where(rows["space"] == 1, spec.sbuf_partition_bytes, spec.psum_partition_bytes)
    is_right = (
        (rows["core"] >= 0)
        & (rows["core"] < cores)
        & (rows["space"] >= 1)
        & (rows["space"] <= 2)
        & (rows["address"] >= 0)
        & (rows["size_bytes"] >= 0)
        & (rows["address"] + rows["size_bytes"] <= limit)
        & (rows["partitions"] >= 1)
        & (rows["partitions"] <= spec.num_partitions)
        & (rows["tensor"] >= -1)
        & (rows["tensor"] < len(graph.tensors))
        & (np.minimum(rows["first"], rows["last"]) >= 0)
        & (np.maximum(rows["first"], rows["last"]) < count)
    )
    if rows.ndim != 1 or not is_right.all():
        raise ValueError("allocations.npy has a tile outside the machine or the program")


def _piece(values: Sequence[Any], tables: Tables, graph: Graph) -> Piece:
    tensor, instruction, operand, base, step, *steps = (int(each) for each in values)
    if len(steps) != 4 or not (
        0 <= tensor < len(graph.tensors) and 0 <= instruction < len(tables.instructions) and 0 <= operand < 6
    ):
        raise ValueError(f"piece {values}")
    return Piece(tensor, instruction, operand, base, step, (steps[0], steps[1], steps[2], steps[3]))


def _note(values: Sequence[Any]) -> Note:
    severity, code, text, node, *reason = values
    kind = "warning" if severity == "warning" else "info"
    why = HostReason(*(str(part) for part in reason)) if reason else None
    return Note(kind, str(code), str(text), int(node), why)
