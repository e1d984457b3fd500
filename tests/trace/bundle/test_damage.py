"""Bundles whose sizes and checksums are right, and whose contents are not."""

import io
import json
import warnings
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from npuviz.base.errors import FormatError, UsageError
from npuviz.trace.bundle.bundle import open_bundle, open_checked_bundle
from npuviz.trace.bundle.manifest import MANIFEST_NAME, MODEL_NAME
from npuviz.trace.bundle.parts import COLUMNS, encode
from npuviz.trace.bundle.query import query
from npuviz.workbench.headless.info import describe_file, info_text
from npuviz.workbench.opening import OpenOptions, open_file
from tests.trace.bundle.test_bundle import write
from tests.trace.recordings import random_events


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    write(tmp_path / "a.npuviz", random_events(6, 60))
    return tmp_path / "a.npuviz"


def test_a_bundle_of_version_1_has_no_causes_and_everything_else(bundle: Path) -> None:
    with_causes = open_checked_bundle(bundle)

    def make_older(tree: dict[str, Any]) -> None:
        tree["version"] = 1
        tree["parts"] = [part for part in tree["parts"] if part["table"] != "causes"]

    change_manifest(bundle, make_older)
    older = open_checked_bundle(bundle)
    assert len(older.causes) == 0
    assert older.end_cycle == with_causes.end_cycle
    for track in older.schema.tracks:
        columns, expected = older.columns(track.id), with_causes.columns(track.id)
        assert len(columns) == len(expected)
    assert query(bundle, "select count(*) from causes").rows == [(0,)]


def change_manifest(bundle: Path, change: Callable[[dict[str, Any]], object]) -> None:
    tree = json.loads((bundle / MANIFEST_NAME).read_text())
    change(tree)
    (bundle / MANIFEST_NAME).write_text(json.dumps(tree))


def change_part(bundle: Path, table: str, change: Callable[[dict[str, np.ndarray]], object]) -> None:
    """Change columns of the first part of a table; its size, rows and checksum are right again."""

    def seal(tree: dict[str, Any]) -> None:
        part = next(part for part in tree["parts"] if part["table"] == table)
        read = pq.read_table(bundle / part["file"])
        columns = {name: read.column(name).to_numpy().copy() for name in read.column_names}
        change(columns)
        data = _encoded(table, columns)
        (bundle / part["file"]).write_bytes(data)
        part.update(size_bytes=len(data), crc32=zlib.crc32(data), rows=len(next(iter(columns.values()))))

    change_manifest(bundle, seal)


def _encoded(table: Any, columns: dict[str, np.ndarray]) -> bytes:
    types = COLUMNS[table]
    if all(name in columns and columns[name].dtype == dtype for name, dtype in types.items()):
        return encode(table, columns)
    stream = io.BytesIO()
    pq.write_table(pa.table(dict(columns)), stream)
    return stream.getvalue()


def put(table: str, name: str, value: int, row: int = -1) -> Callable[[Path], None]:
    def change(columns: dict[str, np.ndarray]) -> None:
        columns[name][row] = value

    return lambda bundle: change_part(bundle, table, change)


def other_type(columns: dict[str, np.ndarray]) -> None:
    columns["start"] = columns["start"].astype(str)


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (put("intervals", "track", 2**31 - 1), "track ids of the schema"),
        (put("intervals", "track", -1, 0), "track ids of the schema"),
        (put("intervals", "node", 2**31 - 1), "nodes from -1 to 6"),
        (put("intervals", "node", -2), "nodes from -1 to 6"),
        (put("intervals", "end", 2**63 - 1), "end from 0"),
        (put("intervals", "start", -(2**63), 0), "start from 0"),
        (put("intervals", "kind", 32_000), "known kinds"),
        (put("counters", "cycle", -(2**62), 0), "cycle from 0"),
        (put("lifetimes", "tensor", 3), "tensors from -1 to 2"),
        (put("lifetimes", "memory", 9), "known memories"),
        (put("lifetimes", "address", -5), "address from 0"),
        (put("flows", "cycle", -5), "cycle from 0"),
        (lambda bundle: change_part(bundle, "intervals", other_type), "column start"),
        (lambda bundle: change_part(bundle, "flows", lambda columns: columns.pop("sink")), "column sink"),
    ],
)
def test_rows_are_looked_at_before_anything_is_shown(
    bundle: Path, damage: Callable[[Path], None], text: str
) -> None:
    open_checked_bundle(bundle)
    damage(bundle)
    with pytest.raises(FormatError, match=text):
        open_file(bundle, OpenOptions())
    with suppress(FormatError, UsageError):
        query(bundle, "select * from slices, flows limit 1")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"frequency_hz": 1e-320}, "frequency_hz"),
        ({"frequency_hz": -1.0}, "frequency_hz"),
        ({"frequency_hz": 1e300}, "frequency_hz"),
        ({"node_types": ["Conv"]}, "node_types"),
        ({"memory_names": [["a", 1 << 64]]}, "memory_names"),
        ({"memory_names": [["a", -1]]}, "memory_names"),
        ({"kinds": [{"id": 1, "name": "a", "role": "compute", "doc": ""}] * 2}, "kinds"),
        (
            {
                "tracks": [
                    {"id": 0, "name": "a", "kind": "counter", "unit": 1 << 40, "measure": "", "maximum": 0}
                ]
            },
            "tracks",
        ),
        (
            {
                "tracks": [
                    {"id": 0, "name": "a", "kind": "counter", "unit": 1, "measure": "", "maximum": 1 << 70}
                ]
            },
            "tracks",
        ),
    ],
)
def test_numbers_of_the_schema(bundle: Path, change: dict[str, Any], text: str) -> None:
    change_manifest(bundle, lambda tree: tree["schema"].update(change))
    with pytest.raises(FormatError, match=text):
        open_bundle(bundle)


@pytest.mark.parametrize("notes", [5, [5], [{"severity": "info"}], {"a": 1}, [{"severity": 1, "text": ""}]])
def test_notes_are_texts(bundle: Path, notes: Any) -> None:
    (bundle / MODEL_NAME).write_text(json.dumps({"notes": notes}))
    with pytest.raises(FormatError, match="notes"):
        describe_file(bundle, OpenOptions())


def test_a_model_says_nothing_about_the_bundle(bundle: Path) -> None:
    (bundle / MODEL_NAME).write_text(json.dumps({"kind": "model", "title": 5, "operators": 7, "more": 1}))
    found = describe_file(bundle, OpenOptions())
    assert (found["kind"], found["title"], found["more"]) == ("bundle", "made up", 1)
    assert "made up" in info_text(found)


def test_a_part_stands_once_in_the_manifest(bundle: Path) -> None:
    change_manifest(bundle, lambda tree: tree["parts"].append(tree["parts"][0]))
    with pytest.raises(FormatError, match="one twice"):
        open_bundle(bundle)


def test_a_member_stands_once_in_an_archive(bundle: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(path, "w") as archive:
        for file in (*bundle.iterdir(), next(bundle.glob("*.parquet"))):
            archive.write(file, file.name)
    with pytest.raises(FormatError, match="a name twice"):
        open_bundle(path)
