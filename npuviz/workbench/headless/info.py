"""Describes the contents of files and the installed targets, as plain data and as text."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from npuviz.base.names import printable
from npuviz.base.progress import NoProgress, Progress
from npuviz.base.reading import reading
from npuviz.base.units import format_bytes, format_count
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.program import Note, Program
from npuviz.sim.target import Target
from npuviz.trace.reader import TraceReader
from npuviz.workbench.choosing import choose_target, targets
from npuviz.workbench.headless.host_operators import host_lines, host_operators
from npuviz.workbench.headless.summary_text import SEVERITIES
from npuviz.workbench.opening import OpenOptions, is_bundle
from npuviz.workbench.trust import scripts_to_run

MAX_NOTES = 20
MAX_FILES = 1000
MAX_HASHED_BYTES = 64 << 20
"""Largest inputs for which `npuviz info` computes a program's digest: drawing and hashing them takes 0.4
s."""


def describe_targets() -> dict[str, Any]:
    """Return all targets with their presets and accepted files as plain data."""
    return {
        "targets": [
            {
                "id": target.id,
                "title": target.title,
                "presets": [{"name": name, "doc": doc} for name, doc in target.presets.items()],
                "files": [{"suffix": suffix, "doc": doc} for suffix, doc in target.file_kinds.items()],
            }
            for target in targets().values()
        ]
    }


def targets_text(found: dict[str, Any]) -> str:
    """Write the result of `describe_targets` as text."""
    lines: list[str] = []
    for target in found["targets"]:
        lines.append(f"{target['id']}  {target['title']}")
        width = max((len(preset["name"]) for preset in target["presets"]), default=0)
        for index, preset in enumerate(target["presets"]):
            default = " (default)" if index == 0 else ""
            lines.append(f"  preset  {preset['name']:<{width}}  {preset['doc']}{default}")
        lines += [f"  file    *{file['suffix']}  {file['doc']}" for file in target["files"]]
    return "\n".join(lines) or "no targets are installed"


def describe_file(path: Path, options: OpenOptions, progress: Progress | None = None) -> dict[str, Any]:
    """Describe a model or a bundle as plain data, without starting any script of it. Raises NpuvizError."""
    if is_bundle(path):
        from npuviz.trace.bundle.bundle import open_bundle

        return _describe_bundle(path, open_bundle(path))
    target = choose_target(path, options.target, options.preset)
    if scripts := scripts_to_run(path, options):
        return _describe_scripts(path, target, scripts)
    with reading(path):
        _, program = target.load(options.request(path), progress or NoProgress())
    return _describe_program(path, program)


def _describe_scripts(path: Path, target: Target, scripts: Sequence[Path]) -> dict[str, Any]:
    """List the files of a folder whose scripts compile and run it, or of a single script, without running
    them."""
    is_folder = path.is_dir()
    files = sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())
    kind = "program folder" if is_folder else target.file_kinds.get(path.suffix.lower(), "script")
    text = f"not compiled: that takes running {', '.join(s.name for s in scripts)}; `npuviz run` does it"
    return {
        "kind": kind,
        "file": printable(path),
        "title": path.resolve().name,
        "target": target.id,
        "scripts": [script.name for script in scripts],
        "files": [printable(Path(name)) for name in files[:MAX_FILES]] if is_folder else [path.name],
        "num_files": len(files) if is_folder else 1,
        "operators": {},
        "notes": [asdict(Note("info", "not-run", text))],
    }


def _describe_bundle(path: Path, reader: TraceReader) -> dict[str, Any]:
    schema = reader.schema
    return {
        **reader.model,
        "kind": "bundle",
        "file": printable(path),
        "title": schema.title,
        "target": schema.target,
        "complete": reader.is_complete,
        "cycles": reader.end_cycle,
        "frequency_hz": schema.frequency_hz,
        "tracks": len(schema.tracks),
        "intervals": reader.num_intervals,
        "operators": dict(Counter(schema.node_types)),
        "memories": [{"name": name, "bytes": size} for name, size in schema.memory_names],
    }


def _describe_program(path: Path, program: Program) -> dict[str, Any]:
    graph = program.graph
    weights = sum(array.nbytes for array in graph.constants.values())
    return {
        "kind": "model",
        "file": printable(path),
        "title": program.title,
        "target": program.target,
        "operators": dict(Counter(node.op_type for node in graph.nodes)),
        "opsets": dict(graph.opsets),
        "placement": dict(Counter(program.placement.values())),
        "instructions": len(program.listing),
        "weight_bytes": weights,
        "inputs": [_tensor(program, tensor) for tensor in graph.inputs],
        "outputs": [_tensor(program, tensor) for tensor in graph.outputs],
        "allocated_bytes": sum(place.size_bytes for place in program.memory_map.allocations),
        "digest": program.digest() if _input_bytes(program) <= MAX_HASHED_BYTES else None,
        "on_host": host_operators(program),
        "notes": [asdict(note) for note in program.notes],
    }


def _input_bytes(program: Program) -> int:
    tensors = (program.graph.tensors[index] for index in program.graph.inputs)
    return sum(tensor.num_elements * numpy_dtype(tensor.dtype).itemsize for tensor in tensors)


def _tensor(program: Program, tensor_id: int) -> dict[str, Any]:
    tensor = program.graph.tensors[tensor_id]
    return {"name": tensor.name, "shape": list(tensor.shape), "dtype": tensor.dtype}


def info_text(found: dict[str, Any]) -> str:
    """Write the result of `describe_file` as text."""
    lines = [f"{found['title']}  ({found['kind']} of {found['target']})", f"  file          {found['file']}"]
    if found["kind"] == "bundle":
        lines += _bundle_lines(found)
    elif "scripts" in found:
        lines.append(f"  files         {found['num_files']}  ({', '.join(found['files'][:12])})")
    else:
        lines += _program_lines(found)
    count = sum(found["operators"].values())
    kinds = ", ".join(f"{name} {number}" for name, number in Counter(found["operators"]).most_common(12))
    if "scripts" not in found:
        lines.append(f"  operators     {count}  ({kinds})" if count else "  operators     none")
    lines += host_lines(found.get("on_host", []))
    notes = [note for note in found.get("notes", []) if note.get("reason") is None]
    notes.sort(key=lambda note: SEVERITIES.index(note["severity"]))
    lines += [f"  {note['severity']}: {note['text']}" for note in notes[:MAX_NOTES]]
    if len(notes) > MAX_NOTES:
        lines.append(f"  ... and {len(notes) - MAX_NOTES} more notes (--json lists all)")
    return "\n".join(lines)


def _bundle_lines(found: dict[str, Any]) -> list[str]:
    state = "" if found["complete"] else "  (the run was killed: this is what it had sealed)"
    return [
        f"  cycles        {format_count(found['cycles'])}{state}",
        f"  tracks        {found['tracks']}",
        f"  intervals     {format_count(found['intervals'])}",
        *(f"  memory        {m['name']}  {format_bytes(m['bytes'])}" for m in found["memories"][:12]),
    ]


def _program_lines(found: dict[str, Any]) -> list[str]:
    def shape(tensor: dict[str, Any]) -> str:
        return f"{tensor['name']}  {tensor['dtype']} {'x'.join(str(d) for d in tensor['shape']) or 'scalar'}"

    return [
        *(f"  input         {shape(tensor)}" for tensor in found["inputs"]),
        *(f"  output        {shape(tensor)}" for tensor in found["outputs"]),
        f"  weights       {format_bytes(found['weight_bytes'])}",
        f"  instructions  {format_count(found['instructions'])}",
    ]
