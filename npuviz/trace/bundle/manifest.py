"""Define the manifest of a bundle: its version, what the rows mean, which parts hold them."""

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import orjson

from npuviz.base.errors import FormatError
from npuviz.trace.schema import TraceSchema

MANIFEST_NAME = "manifest.json"
MODEL_NAME = "model.json"
TEXT_NAME = "text.json"
FORMAT_NAME = "npuviz-trace"
FORMAT_VERSION = 2
"""Version 2 added causes: what let tracks go on."""
LARGEST_TEXT_BYTES = 1 << 26
"""Largest size of manifest, model and text, which take many times as much memory once they are read."""
LARGEST_PART_ROWS = 1 << 24
LAST_CYCLE = 1 << 62
LARGEST_CELLS = 1 << 29
"""Largest product of tracks and kinds: readers keep a number for each pair."""
FREQUENCIES = (1e3, 1e15)
"""Lowest and highest frequency of a clock in Hz; 0 is allowed for none."""

TableName = Literal["intervals", "counters", "flows", "causes", "lifetimes"]
TABLE_NAMES: tuple[TableName, ...] = get_args(TableName)


@dataclass(frozen=True, slots=True)
class Part:
    """One Parquet file. Rows of earlier parts come before those of later ones, track by track.

    crc32       checksum of the whole file
    last_cycle  all rows happened before this cycle, and all intervals ended at it or before
    """

    file: str
    table: TableName
    rows: int
    size_bytes: int
    crc32: int
    last_cycle: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything a reader must know before it opens a part."""

    schema: TraceSchema
    parts: tuple[Part, ...] = ()
    end_cycle: int = 0
    is_complete: bool = False
    format: str = FORMAT_NAME
    version: int = FORMAT_VERSION


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest so that a reader sees either the old or the new one, never a half."""
    replace_file(folder / MANIFEST_NAME, orjson.dumps(manifest, option=orjson.OPT_INDENT_2))


def replace_file(path: Path, data: bytes) -> None:
    """Write a small file so that others see the old or the new content, never a half."""
    temporary = path.with_name(path.name + ".new")
    with open(temporary, "wb") as file:
        file.write(data)
    os.replace(temporary, path)


def parse_manifest(file: str, data: bytes) -> Manifest:
    """Check and decode a manifest. Raises FormatError."""
    from pydantic import ValidationError

    try:
        plain: Any = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise FormatError(file, offset=error.pos, expected="JSON", found=error.msg, hint=_HINT) from None
    if not isinstance(plain, dict) or plain.get("format") != FORMAT_NAME:
        raise FormatError(file, field="format", expected=f'"{FORMAT_NAME}"', hint="not a trace bundle")
    version = plain.get("version")
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise FormatError(
            file,
            field="version",
            expected=f"at most {FORMAT_VERSION}",
            found=str(version),
            hint="written by a newer npuviz; update npuviz to open it",
        )
    try:
        manifest = _validator().validate_json(data, strict=True)
    except (ValidationError, ValueError) as error:
        where, what = "", str(error).splitlines()[0]
        if isinstance(error, ValidationError):
            first = error.errors(include_url=False)[0]
            where, what = ".".join(str(step) for step in first["loc"]), first["msg"]
        raise FormatError(file, field=where, found=what, hint=_HINT) from None
    _check(file, manifest)
    return manifest


@cache
def _validator() -> Any:
    """Make the validator of manifests once, and late:
    pydantic takes a tenth of a second to compile the types."""
    from pydantic import TypeAdapter

    return TypeAdapter(Manifest)


_HINT = "the bundle is damaged: record it again"


def _check(file: str, manifest: Manifest) -> None:
    """Check what the types of the fields do not express."""
    _check_schema(file, manifest.schema)
    if not 1 <= manifest.version <= FORMAT_VERSION:
        found = str(manifest.version)[:40]
        raise FormatError(file, field="version", expected=f"1 to {FORMAT_VERSION}", found=found, hint=_HINT)
    if not 0 <= manifest.end_cycle < LAST_CYCLE:
        found = str(manifest.end_cycle)[:40]
        raise FormatError(file, field="end_cycle", expected="a cycle from 0 to 2^62", found=found, hint=_HINT)
    for part in manifest.parts:
        if not part.file or Path(part.file).name != part.file or not part.file.endswith(".parquet"):
            raise FormatError(
                file, field="parts", expected="plain file names", found=part.file[:80], hint=_HINT
            )
        if not 0 <= part.rows <= LARGEST_PART_ROWS or part.size_bytes < 0:
            found = f"{part.rows} rows, {part.size_bytes} bytes"
            raise FormatError(file, field=f"parts, {part.file}", found=found, hint=_HINT)
    if len({part.file for part in manifest.parts}) != len(manifest.parts):
        raise FormatError(file, field="parts", expected="a file for each part", found="one twice", hint=_HINT)


def _check_schema(file: str, schema: TraceSchema) -> None:
    """Check ids, sizes and numbers of the schema, which readers use as indices and 64-bit words."""
    ids = [kind.id for kind in schema.kinds]
    low, high = FREQUENCIES
    rules = (
        ([t.id for t in schema.tracks] == list(range(len(schema.tracks))), "tracks", "ids 0, 1, 2, ..."),
        (all(-1 <= t.unit < 1 << 31 for t in schema.tracks), "tracks", "units from -1 to 2^31"),
        (all(0 <= t.maximum < LAST_CYCLE for t in schema.tracks), "tracks", "maxima from 0 to 2^62"),
        (all(0 <= one < 1 << 15 for one in ids), "kinds", "ids from 0 to 32767"),
        (len(set(ids)) == len(ids), "kinds", "ids that differ"),
        (len(schema.tracks) * schema.num_kinds <= LARGEST_CELLS, "tracks", "fewer for so many kinds"),
        (len(schema.memory_names) < 1 << 15, "memory_names", "less than 32768"),
        (
            all(0 <= size < LAST_CYCLE for _, size in schema.memory_names),
            "memory_names",
            "sizes from 0 to 2^62",
        ),
        (len(schema.node_names) == len(schema.node_types), "node_types", "one for each node name"),
        (schema.frequency_hz == 0 or low <= schema.frequency_hz <= high, "frequency_hz", "1e3 to 1e15, or 0"),
    )
    for is_right, field, expected in rules:
        if not is_right:
            raise FormatError(file, field=f"schema.{field}", expected=expected, hint=_HINT)
