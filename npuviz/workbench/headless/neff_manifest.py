"""The manifest of an unpacked NEFF: header, order and tar fields, so that packing gives back the original."""

import hashlib
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from npuviz.formats.binary import read_file
from npuviz.formats.neff.file import layout_of
from npuviz.formats.neff.json_members import Fields, parse_object
from npuviz.formats.neff.model import ArchiveEntry, Neff, NeffHeader
from npuviz.formats.neff.tar import member_name, tar_chunks

MANIFEST = ".npuviz-neff.json"
"""File in the folder of an unpacked NEFF that keeps everything that is not content of members."""
_LIMIT_BYTES = 256 << 20
_FORMAT = "npuviz unpacked NEFF 1"
_HEADER_TEXTS = ("name", "build_version")
_HEX = "hex:"


@dataclass(frozen=True, slots=True)
class Manifest:
    """Content of a manifest; `digest` is the sha256 of the tar that was unpacked."""

    header: NeffHeader
    layout: tuple[ArchiveEntry, ...]
    is_compressed: bool
    tar_trailer: int
    digest: str


def manifest_object(neff: Neff) -> dict[str, Any]:
    """Return the manifest of a container as plain data for JSON."""
    header = {
        key: _header_value(key, value) if isinstance(value, bytes) else value
        for key, value in asdict(neff.header).items()
    }
    return {
        "format": _FORMAT,
        "header": header,
        "compressed": neff.is_compressed,
        "tar_trailer": neff.tar_trailer,
        "tar_sha256": tar_digest(neff),
        "members": [_entry_object(entry) for entry in layout_of(neff)],
    }


def _header_value(key: str, value: bytes) -> str:
    """Write a field of bytes as text if it is a text field of printable ASCII, else in hexadecimal."""
    text = value.rstrip(b"\0")
    if key in _HEADER_TEXTS and text.isascii() and text.decode("ascii").isprintable():
        return text.decode("ascii")
    return f"{_HEX if key in _HEADER_TEXTS else ''}{value.hex()}"


_PLAIN_ENTRY = asdict(ArchiveEntry(""))


def _entry_object(entry: ArchiveEntry) -> dict[str, Any]:
    """Return a tar entry without the fields that have their default value."""
    found = {key: value for key, value in asdict(entry).items() if value != _PLAIN_ENTRY[key]}
    if entry.raw:
        found["raw"] = entry.raw.hex()
    return found


def tar_digest(neff: Neff) -> str:
    """Compute the sha256 of the tar that `write_neff` would write."""
    digest = hashlib.sha256()
    for chunk in tar_chunks(neff.members, neff.layout, neff.tar_trailer):
        digest.update(chunk)
    return digest.hexdigest()


def read_manifest(path: Path) -> Manifest:
    """Read a manifest. Raises FormatError that names the key."""
    content = Fields(parse_object(read_file(path, _LIMIT_BYTES), str(path), "manifest"), str(path), "")
    if content.text("format") != _FORMAT:
        content.fail("format", repr(_FORMAT))
    trailer = content.integer("tar_trailer", 1024)
    if not 0 <= trailer <= 1 << 20:
        content.fail("tar_trailer", "0 to 1048576 bytes")
    return Manifest(
        _read_header(Fields(content.raw("header"), str(path), "header")),
        tuple(
            _read_entry(Fields(value, str(path), f"members[{index}]"))
            for index, value in enumerate(content.objects("members"))
        ),
        content.flag("compressed", True),
        trailer,
        content.text("tar_sha256", ""),
    )


def _read_header(values: Fields) -> NeffHeader:
    usual = NeffHeader()
    found: dict[str, Any] = {}
    for each in fields(NeffHeader):
        default = getattr(usual, each.name)
        if not values.has(each.name):
            continue
        if isinstance(default, bytes):
            width = 256 if each.name == "name" else len(default)
            text = values.text(each.name)
            if each.name in _HEADER_TEXTS and not text.startswith(_HEX):
                raw = text.encode()
            else:
                raw = _hex(values, each.name)
            if len(raw) > width:
                values.fail(each.name, f"at most {width} bytes")
            found[each.name] = raw.ljust(width, b"\0")
        else:
            bits = 32 if each.name in ("num_tpb", "requested_tpb_count", "lnc_size") else 64
            # Feature bits use all 64 bits, more than any size may have.
            value = values.raw(each.name)
            if type(value) is not int or not 0 <= value < 1 << bits:
                values.fail(each.name, f"an integer of {bits} bits")
            found[each.name] = value
    return NeffHeader(**found)


def _read_entry(values: Fields) -> ArchiveEntry:
    numbers = {key: values.integer(key, _PLAIN_ENTRY[key]) for key in ("mode", "uid", "gid", "mtime")}
    for key, value in numbers.items():
        if not 0 <= value < (1 << 33 if key == "mtime" else 1 << 18):
            values.fail(key, "a number that a tar header has room for")
    raw = _hex(values, "raw") if values.has("raw") else b""
    if len(raw) % 512:
        values.fail("raw", "whole blocks of 512 bytes")
    return ArchiveEntry(
        member_name(values.text("name"), values.file),
        values.flag("is_folder"),
        **numbers,
        uname=values.text("uname", _PLAIN_ENTRY["uname"]),
        gname=values.text("gname", _PLAIN_ENTRY["gname"]),
        raw=raw,
    )


def _hex(values: Fields, key: str) -> bytes:
    try:
        return bytes.fromhex(values.text(key).removeprefix(_HEX))
    except ValueError:
        values.fail(key, "hexadecimal digits")
