"""Check a NEFF against the rules: header, kelf, neff.json, def.json, engine files.

Queue sets and variables are in `resources`, DMA descriptors in `dma`.
"""

import hashlib
from collections.abc import Iterator
from math import prod

from npuviz.formats.neff.graph import GraphTensor, graph_tensors
from npuviz.formats.neff.model import ENGINES, SLOT_BYTES, EngineFile, Finding, Neff, Subgraph
from npuviz.formats.neff.rules.dma import check_engine_dma
from npuviz.formats.neff.rules.resources import check_queue_sets, check_variables
from npuviz.formats.neff.rules.table import Report, extra_keys, shown
from npuviz.formats.neff.tar import tar_chunks

KNOWN_FEATURE_BITS = 0x80000000_00209CFF
"""Feature bits of the one real NEFF known, and those that a published runtime message calls supported."""
ASSUMED_GENERATION = 3
"""Generation whose rules apply to an unknown machine: the one with the most public facts."""
_DEFINITION_KEYS = frozenset(
    (
        "name",
        "version",
        "neff_features",
        "runtime_event_count",
        "runtime_semaphore_count",
        "runtime_statebuffer_reservation",
        "cc_streams",
        "debug_info",
        "#rank_world_size",
        "fp8_conversion_config",
    )
)
_ENGINE_KEYS = {
    "Activation": frozenset(("activation_function_sets", "act_info", "act_semaphore")),
    "DVE": frozenset(("dve_tables",)),
}
_ITEM_BYTES = {
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "uint64": 8,
}


def check_neff(neff: Neff) -> tuple[Finding, ...]:
    """Return every rule that this NEFF breaks, errors first; unknown things are warnings, never errors.

    Debug records are checked apart, by `check_debug`: they may be as large as the programs.
    """
    report = Report()
    generation = neff.generation or ASSUMED_GENERATION
    _check_header(neff, generation, report)
    _check_kelf(neff, report)
    for subgraph in neff.subgraphs:
        _check_definition(subgraph, generation, report)
        check_queue_sets(subgraph, generation, report)
        check_variables(subgraph, generation, report)
        for engine in subgraph.engines.values():
            _check_engine(subgraph, engine, report)
            check_engine_dma(subgraph, engine, generation, neff.header.lnc_size, report)
        _check_tensors(neff, subgraph, report)
    return report.findings()


def _check_header(neff: Neff, generation: int, report: Report) -> None:
    header = neff.header
    if any(header.hash) and not _hash_matches(neff):
        report.add(
            "header.hash", "header.hash", "matches no known hash of the content; nothing depends on it"
        )
    if header.pkg_version not in (1, 2):
        report.add(
            "header.package-version", "header.pkg_version", f"expected 1 or 2, found {header.pkg_version}"
        )
    if header.version_major not in (0, 1, 2) or (header.version_major == 2 and header.version_minor):
        found = f"{header.version_major}.{header.version_minor}"
        report.add("header.version", "header.neff_version", f"expected 0.x, 1.x or 2.0, found {found}")
    unknown = header.feature_bits & ~KNOWN_FEATURE_BITS
    if unknown:
        bits = ", ".join(str(bit) for bit in range(64) if unknown >> bit & 1)
        report.add(
            "header.features", "header.feature_bits", f"{header.feature_bits:#x} has unknown bits: {bits}"
        )
    if max(1, header.lnc_size) != len(neff.subgraphs):
        text = f"{header.lnc_size}, but there are {len(neff.subgraphs)} subgraphs"
        report.add("header.lnc-size", "header.lnc_size", text)
    if header.lnc_size > 1 and generation < 3:
        report.add(
            "header.lnc-machine", "header.lnc_size", f"{header.lnc_size} on {neff.target}, which has only 1"
        )
    if neff.unused_bytes:
        report.add("header.unused", "file", f"{neff.unused_bytes} bytes after the content belong to nothing")


def _hash_matches(neff: Neff) -> bool:
    """Whether the hash is the md5 (16 bytes, then zeros) or sha256 of the tar, as npuviz writes it."""
    stored = neff.header.hash
    digest = hashlib.sha256() if any(stored[16:]) else hashlib.md5(usedforsecurity=False)
    for chunk in tar_chunks(neff.members, neff.layout, neff.tar_trailer):
        digest.update(chunk)
    return stored.startswith(digest.digest())


def _check_kelf(neff: Neff, report: Report) -> None:
    if neff.generation is None:
        text = f"{shown(neff.target)} is not known; checked as generation {ASSUMED_GENERATION}"
        report.add("kelf.target", "kelf-0.json, target", text)
    version = neff.kelf.get("version")
    if version != "0.5":
        report.add("kelf.version", "kelf-0.json, version", f"expected '0.5', found {shown(version)}")


def _check_definition(subgraph: Subgraph, generation: int, report: Report) -> None:
    where = f"{subgraph.folder}/def.json"
    version = subgraph.definition.get("version")
    if version != "0.6":
        report.add("definition.version", f"{where}, version", f"expected '0.6', found {shown(version)}")
    for key in extra_keys(subgraph.definition):
        if key not in _DEFINITION_KEYS:
            report.add("definition.field", where, f"unknown key {shown(key)}")
    missing = [name for name in ENGINES if name not in subgraph.engines]
    if missing and generation > 1:
        report.add("engine.missing", where, f"no program for {', '.join(missing)}")
    for name in subgraph.dma_debug:
        if name not in subgraph.files:
            report.add("engine.debug-file", f"{where}, dma_dbg", f"no member {shown(name)}")


def _check_engine(subgraph: Subgraph, engine: EngineFile, report: Report) -> None:
    where = f"{subgraph.folder}/{engine.json_name or engine.name + '.json'}"
    if len(engine.program) % SLOT_BYTES:
        program = f"{subgraph.folder}/{engine.program_name or engine.name + '.bin'}"
        text = f"{len(engine.program)} bytes are no multiple of {SLOT_BYTES}"
        report.add("engine.program-size", program, text)
    known = _ENGINE_KEYS.get(engine.name, frozenset())
    for key in extra_keys(engine.extra):
        if key not in known:
            report.add("engine.field", where, f"unknown key {shown(key)}")
    for key, name in _table_files(engine):
        if name not in subgraph.files:
            report.add("engine.table", f"{where}, {key}", f"no member {shown(name)} in {subgraph.folder}")
    for name in (*engine.backend_debug, *engine.assembly_debug):
        if name not in subgraph.files:
            report.add("engine.debug-file", f"{subgraph.folder}/def.json", f"no member {shown(name)}")


def _table_files(engine: EngineFile) -> Iterator[tuple[str, str]]:
    info = engine.extra.get("act_info")
    if isinstance(info, str):
        yield "act_info", info
    for index, table in enumerate(engine.dve_tables):
        for key, name in table.items():
            if key.endswith("_table"):
                yield f"dve_tables[{index}].{key}", name


def _check_tensors(neff: Neff, subgraph: Subgraph, report: Report) -> None:
    for tensors, kind in zip(graph_tensors(neff.graph), ("input", "output"), strict=True):
        for tensor in tensors:
            variable = subgraph.variables.get(tensor.name)
            expected = _tensor_bytes(tensor)
            if variable is None or variable.type != kind or not expected or variable.size is None:
                continue
            if variable.size != expected:
                where = f"{subgraph.folder}/def.json, var.{tensor.name}.size"
                shape = f"{tensor.dtype}{list(tensor.shape)}"
                text = f"{shape} of neff.json takes {expected} bytes, not {variable.size}"
                report.add("graph.tensor-size", where, text)


def _tensor_bytes(tensor: GraphTensor) -> int:
    return prod(tensor.shape) * _ITEM_BYTES.get(tensor.dtype, 0)
