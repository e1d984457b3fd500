"""Trace bundles: an archive of manifest, model and parts, and the folder with the same files."""

import io
import json
import shutil
import tempfile
import zlib
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from npuviz.base.progress import NoProgress
from npuviz.trace.bundle.bundle import BundleWriter
from npuviz.trace.bundle.manifest import MANIFEST_NAME, MODEL_NAME, TEXT_NAME
from npuviz.trace.bundle.parts import COLUMNS, encode
from npuviz.trace.bundle.query import query
from npuviz.trace.reader import TraceReader
from npuviz.workbench.headless.bundles import export_bundle
from npuviz.workbench.headless.info import describe_file, info_text
from npuviz.workbench.headless.run import exporters
from npuviz.workbench.opening import OpenOptions, open_file
from tests.fuzz.containers import packed, spread, unpacked
from tests.fuzz.mutations import NUMBERS, change_bytes, change_json, change_text, change_tree
from tests.trace.recordings import INTERVAL_TRACKS, SCHEMA

SUFFIX = ".zip"
SHARE = 30
_ROWS = 24
_QUESTIONS = (
    "select * from slices",
    "select track, max(value) from samples group by 1",
    "select * from residence join flows on cycle = start",
)
_MODEL = {
    "summary": {"cycles": 200},
    "notes": [{"severity": "info", "code": "assumed", "text": "a", "node": -1}],
}


_TEXT: dict[str, Any] = {
    "sources": [
        {"name": "k.py", "text": "for i in a:\n  b(i)", "path": "", "language": "", "library": False}
    ],
    "places": [[0, 1], [0, 2]],
    "line": [0, 1, 1, -1],
    "loops": [["i", 0, 1, -1], ["j", 0, 2, 0]],
    "turns": {"loop": [0, 1], "outer": [-1, 0], "turn": [1, 1], "count": [1, 1], "value": [0, 5]},
    "innermost": [-1, 0, 1, -1],
}


def seeds() -> list[bytes]:
    """A small bundle with every table and a model, and one with nothing in it."""
    rows = np.arange(_ROWS, dtype=np.int64)
    tables: dict[Any, dict[str, np.ndarray]] = {
        "intervals": {
            "track": np.array(INTERVAL_TRACKS)[rows // 8],
            "start": rows % 8 * 10,
            "end": rows % 8 * 10 + 5,
            "kind": rows % 3,
            "node": rows % 7,
            "instruction": rows,
        },
        "counters": {"track": 2 + rows // 12, "cycle": rows % 12 * 7, "value": rows},
        "flows": {"cycle": rows, "source": rows, "sink": rows + 1},
        "lifetimes": {
            "memory": rows % 2,
            "address": rows * 64,
            "size_bytes": rows + 1,
            "start": rows,
            "end": rows + 3,
            "tensor": rows % 3,
            "instruction": rows,
        },
    }
    return [_bundle(tables, _MODEL), _bundle({}, {})]


def _bundle(tables: dict[Any, dict[str, np.ndarray]], model: dict[str, Any]) -> bytes:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "run.npuviz"
        with BundleWriter(path, SCHEMA) as writer:
            if model:
                writer.set_model(model)
                writer.set_text(_TEXT)
            for table, columns in tables.items():
                types = COLUMNS[table]
                writer.add_part(table, {key: values.astype(types[key]) for key, values in columns.items()})
            writer.close(200)
        return packed({part.name: part.read_bytes() for part in sorted(path.iterdir())})


# --- changes -----------------------------------------------------------------------------------------------


def mutate(data: bytes, rng: Random) -> bytes:
    """Values of the manifest, of the model or of a part; sizes and checksums are mostly right again."""
    members = unpacked(data)
    if not members or rng.random() < 0.05:
        return change_bytes(data, rng)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        parts = [name for name in members if name.endswith(".parquet")]
        kind = rng.random()
        if kind < 0.4 and MANIFEST_NAME in members:
            members[MANIFEST_NAME] = change_json(members[MANIFEST_NAME], rng)
        elif kind < 0.5 and MODEL_NAME in members:
            members[MODEL_NAME] = _model(members[MODEL_NAME], rng)
        elif kind < 0.6 and TEXT_NAME in members:
            members[TEXT_NAME] = change_json(members[TEXT_NAME], rng)
        elif kind < 0.95 and parts:
            name = rng.choice(parts)
            members[name] = _part(members[name], rng)
        else:
            name = rng.choice(sorted(members))
            members[change_text(name, rng)[:100]] = members.pop(name)
    if rng.random() < 0.9:
        _seal(members)
    return packed(members)


def _model(data: bytes, rng: Random) -> bytes:
    """Keys of the model, and of what `info` shows of a bundle."""
    changed = change_json(data, rng)
    if rng.random() < 0.5:
        return changed
    try:
        tree = json.loads(changed)
    except (ValueError, RecursionError):
        return changed
    if isinstance(tree, dict):
        tree[
            rng.choice(("kind", "title", "target", "notes", "operators", "memories", "cycles", "complete"))
        ] = change_tree(_MODEL["notes"], rng)
    return json.dumps(tree).encode()


def _part(data: bytes, rng: Random) -> bytes:
    """Other bytes, or other values in a column."""
    if rng.random() < 0.35:
        return change_bytes(data, rng)
    try:
        table = pq.read_table(io.BytesIO(data))
        # Names that an earlier change has made no text are found here only.
        columns = {name: table.column(name).to_numpy().copy() for name in table.column_names}
    except Exception:
        return change_bytes(data, rng)
    if not table.num_rows or not columns:
        return data
    name = rng.choice(sorted(columns))
    kind = rng.randrange(10)
    if kind == 0:
        count = rng.randrange(len(columns[name]))
        columns = {key: values[:count] for key, values in columns.items()}
    elif kind == 1:
        del columns[name]
    elif kind == 2:
        columns[name] = columns[name].astype(rng.choice((np.int8, np.int32, np.int64, np.float64, str)))
    else:
        _change_values(columns[name], rng)
    return _encoded(columns, rng)


def _change_values(values: np.ndarray, rng: Random) -> None:
    if values.dtype.kind not in "iu":
        return
    bits = 8 * values.dtype.itemsize
    for _ in range(rng.choice((1, 1, 2, len(values)))):
        number = rng.choice((rng.choice(NUMBERS), -rng.choice(NUMBERS), rng.randrange(40), -1))
        number = (number + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
        values[rng.randrange(len(values))] = number


def _encoded(columns: dict[str, np.ndarray], rng: Random) -> bytes:
    for table, types in COLUMNS.items():
        is_whole = all(name in columns and columns[name].dtype == dtype for name, dtype in types.items())
        if is_whole and rng.random() < 0.9:
            return encode(table, columns)
    arrays = {name: pa.array(values) for name, values in columns.items()}
    if arrays and rng.random() < 0.3:
        name = rng.choice(sorted(arrays))
        arrays[name] = pa.array([None] * len(arrays[name]), arrays[name].type)
    stream = io.BytesIO()
    pq.write_table(pa.table(arrays), stream)
    return stream.getvalue()


def _seal(members: dict[str, bytes]) -> None:
    """Write the sizes, rows and checksums of the parts into the manifest."""
    try:
        tree = json.loads(members[MANIFEST_NAME])
        for part in tree["parts"]:
            data = members[part["file"]]
            part["size_bytes"], part["crc32"] = len(data), zlib.crc32(data)
            part["rows"] = pq.read_metadata(io.BytesIO(data)).num_rows
    except Exception:
        return
    members[MANIFEST_NAME] = json.dumps(tree).encode()


# --- attempts ----------------------------------------------------------------------------------------------


def prepare() -> None:
    """Have the kernels of readers and exporters."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / f"input{SUFFIX}"
        path.write_bytes(seeds()[0])
        _use(path)


def attempt(path: Path) -> object:
    """Open, describe, ask and export the archive, then the folder; what one refuses the other may take."""
    folder = path.with_name("bundle.npuviz")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    data = path.read_bytes()
    spread(unpacked(data), folder)
    (folder / MANIFEST_NAME).touch()
    choice = zlib.crc32(data)
    return _use(path if choice & 1 else folder, choice >> 1)


def _use(path: Path, choice: int = 0) -> None:
    info_text(describe_file(path, OpenOptions()))
    opened = open_file(path, OpenOptions())
    try:
        if opened.reader is not None:
            _ask(opened.reader)
    finally:
        opened.close()
    query(path, _QUESTIONS[choice % len(_QUESTIONS)])
    for name in exporters():
        export_bundle(path, name, path.with_name(f"exported-{name}"), "", NoProgress())


def _ask(reader: TraceReader) -> None:
    """What panels ask."""
    end = float(max(reader.end_cycle, 1))
    for track in reader.schema.tracks[:12]:
        if track.kind == "interval":
            reader.interval_columns(track.id)
            reader.intervals(track.id, (0.0, end), end / 8)
            reader.utilization(track.id, (0.0, end), 64)
            reader.busy_cycles(track.id)
            reader.at(track.id, end / 2)
            reader.neighbor(track.id, 0.0, 1)
        else:
            reader.counter_columns(track.id)
            reader.counter(track.id, (0.0, end), 64)
            reader.value_at(track.id, end / 2)
    reader.flows((0, reader.end_cycle), 100)
    for memory in range(min(len(reader.schema.memory_names), 4)):
        reader.lifetimes(memory, (0.0, end))
