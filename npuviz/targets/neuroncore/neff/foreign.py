"""Estimate the schedule of NEFFs from the vendor's compiler, whose programs cannot be run.

The engine binaries are not documented. The debug records name the instructions of each engine, with
source lines and typed dependencies. These instructions become NOPs of assumed durations on the same
machine, and the dependencies between engines become semaphore waits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from npuviz.formats.neff import model as nm
from npuviz.formats.neff.debug import NamedInstruction, engine_instructions
from npuviz.formats.neff.model import Neff
from npuviz.program.graph import Graph, Node
from npuviz.program.instruction import Dependency, DependencyKind
from npuviz.program.memory import MemoryMap
from npuviz.program.program import Note
from npuviz.targets.neuroncore import isa
from npuviz.targets.neuroncore.compiler.compiled import places_of
from npuviz.targets.neuroncore.neff.descriptors import read_transfers
from npuviz.targets.neuroncore.neff.foreign_listing import ForeignListing, ForeignRow
from npuviz.targets.neuroncore.neff.variables import (
    OWNERS,
    names_of,
    plain_graph,
    plain_outputs,
    plain_variables,
    queue_sets_of,
)
from npuviz.targets.neuroncore.neff.verifier import check_transfer
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import QueueSet, Tables, Transfer, Variable

Kinds = dict[int, DependencyKind]
"""{debug id that an instruction depends on: kind of the dependency}."""
COMPUTE_CYCLES = 128
"""Assumed: engine cycles of an instruction of unknown kind, as for 128 elements per partition."""
CONTROL_CYCLES = 16
"""Assumed: engine cycles of waits and NOPs, and of each slot of start-up code."""


@dataclass(frozen=True)
class ForeignProgram:
    """The readable parts of a vendor's program; `tables` has the estimated schedule."""

    tables: Tables
    graph: Graph
    listing: ForeignListing
    memory_map: MemoryMap
    notes: tuple[Note, ...]
    placement: Mapping[int, str]


@dataclass
class _Program:
    """The instructions of one engine of one core; each adds 1 to the engine's semaphore.

    sources  position -> the dependencies of the instruction
    place    debug id -> position
    """

    core: int
    engine: isa.Engine
    semaphore: int
    rows: list[ForeignRow] = field(default_factory=list[ForeignRow])
    opcodes: list[int] = field(default_factory=list[int])
    ids: list[int] = field(default_factory=list[int])
    transfers: list[int] = field(default_factory=list[int])
    sources: dict[int, dict[int, DependencyKind]] = field(
        default_factory=dict[int, dict[int, DependencyKind]]
    )
    place: dict[int, int] = field(default_factory=dict[int, int])
    start: int = 0

    def append(self, opcode: isa.Opcode, row: ForeignRow, number: int, transfer: int = -1) -> int:
        """Append an instruction and return its position; `number` is its `id` (of a NOP its cycles)."""
        self.opcodes.append(opcode)
        self.rows.append(row)
        self.ids.append(number)
        self.transfers.append(transfer)
        return len(self.rows) - 1


def open_foreign(neff: Neff, spec: NeuronSpec) -> ForeignProgram:
    """Estimate the program of a file. Raises FormatError for damaged debug records or descriptors."""
    variables, queue_sets = plain_variables(neff), queue_sets_of(neff)
    programs: list[_Program] = []
    transfers: list[Transfer] = []
    for core, subgraph in enumerate(neff.subgraphs):
        named = {name: _named(subgraph, name) for name in isa.ENGINE_NAMES[:-1]}
        engine_of = {
            each.record.id: number
            for number, instructions in enumerate(named.values())
            for each in instructions
            if each.record is not None
        }
        semaphores = _free_semaphores(subgraph, spec)
        for number, (name, instructions) in enumerate(named.items()):
            program = _Program(core, isa.Engine(number), semaphores[number])
            declared = _declared(neff, core, name, variables, queue_sets, spec)
            for each in declared:
                row = ForeignRow(name=f"static transfer {each.id}", kind="declared transfer")
                program.append(isa.Opcode.DMA_TRIGGER, row, each.id, len(transfers))
                transfers.append(each)
            _fill(program, subgraph, instructions, engine_of, spec)
            programs.append(program)
    ends = np.cumsum([len(each.rows) for each in programs])
    for program, end in zip(programs, ends.tolist(), strict=True):
        program.start = end - len(program.rows)
    graph = _with_node(plain_graph(neff))
    tables = Tables(
        num_cores=len(neff.subgraphs),
        instructions=_instructions(programs),
        sequencers=_sequencers(ends),
        nodes=_nodes(programs, graph),
        tiles=np.full(int(ends[-1]), -1, np.int32),
        transfer_of=np.array([t for each in programs for t in each.transfers], np.int32),
        transfers=tuple(transfers),
        queue_sets=queue_sets,
        variables=variables,
        outputs=plain_outputs(variables),
        semaphore_uses={(p.core, p.semaphore): f"{isa.ENGINE_NAMES[p.engine]} (assumed)" for p in programs},
    )
    rows = [row for program in programs for row in program.rows]
    return ForeignProgram(
        tables,
        graph,
        ForeignListing(neff, tables, spec, rows, _edges(programs)),
        places_of(spec, variables),
        _notes(rows, transfers),
        {node.id: "Core" for node in graph.nodes},
    )


def _named(subgraph: nm.Subgraph, name: str) -> tuple[NamedInstruction, ...]:
    """Return an engine's instructions; a program without records counts as one of unknown kind."""
    file = subgraph.engines.get(name)
    if file is None:
        return ()
    found = engine_instructions(subgraph, name)
    return found or ((NamedInstruction(name, 0, file.slot_count, None),) if file.slot_count else ())


def _declared(
    neff: Neff,
    core: int,
    name: str,
    variables: Sequence[Variable],
    queue_sets: Sequence[QueueSet],
    spec: NeuronSpec,
) -> list[Transfer]:
    """Return the transfers of an engine's static descriptors; the file does not tell what triggers them."""
    subgraph = neff.subgraphs[core]
    file = subgraph.engines.get(name)
    if file is None or not file.descriptors:
        return []
    where = f"{neff.name}, {subgraph.folder}/{name}.json"
    found = list(read_transfers(file, core, names_of(neff, core, variables, queue_sets), where).values())
    known = {each.id: each for each in variables}
    for each in found:
        check_transfer(each, known, spec, len(neff.subgraphs), where)
    return found


def _fill(
    program: _Program,
    subgraph: nm.Subgraph,
    instructions: Sequence[NamedInstruction],
    engine_of: Mapping[int, int],
    spec: NeuronSpec,
) -> None:
    """Append instructions, with a NOP before each that waits for more than MAX_WAITS engines."""
    triggers = any(
        each.type == "dynamic" and OWNERS.get(each.owner.lower()) == program.engine
        for each in subgraph.queue_sets.values()
    )
    for each in instructions:
        kind, cycles = _duration(each, program.engine, triggers, spec)
        sources = _sources(each)
        row = ForeignRow(each.record.name if each.record is not None else "start-up", kind, each)
        others = {engine_of[number] for number in sources if number in engine_of} - {program.engine}
        if len(others) > isa.MAX_WAITS:
            program.append(isa.Opcode.NOP, ForeignRow(f"{row.name} (waits)", "wait"), CONTROL_CYCLES)
        position = program.append(isa.Opcode.NOP, row, cycles)
        program.sources[position] = sources
        if each.record is not None:
            program.place[each.record.id] = position
    program.append(isa.Opcode.END, ForeignRow("end", "end of the program"), 0)


def _duration(
    each: NamedInstruction, engine: isa.Engine, triggers: bool, spec: NeuronSpec
) -> tuple[str, int]:
    """Guess an instruction's kind from its name and engine; return the kind and assumed engine cycles."""
    if each.record is None:
        return "not named in the file", CONTROL_CYCLES * min(each.slot_count, 1 << 16)
    clock = spec.clocks_hz[engine]
    if "-wait-" in each.record.name or each.record.name.endswith("NOP"):
        return "wait", CONTROL_CYCLES
    if each.record.name.endswith("-PWP"):
        return "table load", int(spec.table_load_ns * clock / 1e9)
    if triggers:
        making = spec.software_dge_ns if engine == isa.Engine.POOL else spec.dge_ns
        return "DMA of its queue set", int((making + spec.dma_start_ns) * clock / 1e9)
    return "instruction", COMPUTE_CYCLES


def _sources(each: NamedInstruction) -> Kinds:
    """Return the dependencies of an instruction, explicit waits included."""
    if each.record is None:
        return {}
    known: Mapping[str, DependencyKind] = {"anti": "anti", "output": "output", "accumulate": "accumulate"}
    edges = (*each.record.synchronised, *each.record.depends_on)
    return {edge.id: known.get(edge.kind, "flow") for edge in edges}


def _free_semaphores(subgraph: nm.Subgraph, spec: NeuronSpec) -> list[int]:
    """Return a semaphore for each engine: those that no queue set uses first, then used ones."""
    used = {number for each in subgraph.queue_sets.values() for number in each.semaphore_set}
    used |= {each.semaphore for each in subgraph.queue_sets.values() if each.semaphore is not None}
    free = [number for number in range(spec.num_semaphores) if number not in used]
    taken = sorted(used, reverse=True)
    return [*free, *taken][3 : 3 + isa.NUM_ENGINES]


def _instructions(programs: Sequence[_Program]) -> np.ndarray:
    """Return the records of all programs, with waits for the engines that they depend on."""
    by_engine = {(each.core, each.engine): each for each in programs}
    owner = {(each.core, number): each for each in programs for number in each.place}
    parts: list[np.ndarray] = []
    for program in programs:
        code = np.zeros(len(program.rows), isa.INSTRUCTION_DTYPE)
        code["opcode"], code["engine"], code["id"] = program.opcodes, program.engine, program.ids
        signals = code["opcode"] != isa.Opcode.END
        code["updates"]["kind"][:, 0] = np.where(signals, isa.Update.SEM_INC, isa.Update.NONE)
        code["updates"]["semaphore"][:, 0] = np.where(signals, program.semaphore, 0)
        for position, sources in program.sources.items():
            latest: dict[isa.Engine, int] = {}
            for number in sources:
                source = owner.get((program.core, number))
                if source is not None and source is not program:
                    place = source.place[number]
                    latest[source.engine] = max(latest.get(source.engine, -1), place)
            for count, (engine, place) in enumerate(latest.items()):
                row = position - count // isa.MAX_WAITS
                waits = code["waits"][row]
                value = (by_engine[program.core, engine].semaphore, isa.Condition.GE, 1, place + 1)
                waits[count % isa.MAX_WAITS] = value
        parts.append(code)
    joined = np.concatenate(parts)
    joined.setflags(write=False)
    return joined


def _sequencers(ends: np.ndarray) -> np.ndarray:
    """Return the instruction ranges of the engines, and an empty one for the Host."""
    starts = np.concatenate([[0], ends])
    return np.stack([starts, np.append(ends, ends[-1])], axis=1).astype(np.int64)


def _edges(programs: Sequence[_Program]) -> tuple[Dependency, ...]:
    """Return every dependency in the file, as instruction indices."""
    index = {
        (each.core, number): each.start + position
        for each in programs
        for number, position in each.place.items()
    }
    return tuple(
        Dependency(index[each.core, number], each.start + position, kind)
        for each in programs
        for position, sources in each.sources.items()
        for number, kind in sources.items()
        if (each.core, number) in index
    )


def _with_node(graph: Graph) -> Graph:
    """Return the graph with the one compute node of neff.json."""
    if not graph.outputs:
        return graph
    node = Node(0, "kelf-0", "NEFF", "", graph.inputs, graph.outputs)
    tensors = tuple(replace(each, producer=0) if each.kind == "output" else each for each in graph.tensors)
    return Graph(graph.name, (node,), tensors, graph.inputs, graph.outputs)


def _nodes(programs: Sequence[_Program], graph: Graph) -> np.ndarray:
    """Return the graph node of each instruction: named ones belong to the only node, others to none (-1)."""
    node = 0 if graph.nodes else -1
    named = [row.named is not None and row.named.record is not None for p in programs for row in p.rows]
    return np.where(named, node, -1).astype(np.int32)


def _notes(rows: Sequence[ForeignRow], transfers: Sequence[Transfer]) -> tuple[Note, ...]:
    named = sum(row.named is not None and row.named.record is not None for row in rows)
    notes = [
        Note(
            "warning",
            "not-simulated",
            "the engine programs of this NEFF are in the vendor's own encoding, which is not public: they "
            "are not run, and nothing is computed. Opcodes, operands, values and times are not in the file",
        ),
        Note(
            "warning",
            "estimated",
            f"the schedule is estimated: {named} instructions are laid out on the engines by the "
            f"dependencies of the file's debug records, with assumed durations ({COMPUTE_CYCLES} cycles of "
            f"its engine for an instruction, {CONTROL_CYCLES} for a wait, start and descriptor time for DMA)",
        ),
    ]
    if not named:
        notes.append(
            Note(
                "warning", "not-in-file", "the file has no debug records: each engine's program is one block"
            )
        )
    if transfers:
        text = f"{len(transfers)} declared transfers start with the program: what triggers them is not known"
    else:
        text = "the dma lists are empty: its DMAs are made by instructions (DGE), which cannot be read"
    notes.append(Note("info", "not-in-file", text))
    return tuple(notes)
