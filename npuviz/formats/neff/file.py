"""Read and write NEFF files, and build a NEFF in memory.

The objects are in `model`, the checks in `rules`, the debug records in `debug`.
"""

import hashlib
import io
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from npuviz.base.collection import no_collection
from npuviz.base.errors import FormatError
from npuviz.formats.binary import read_file
from npuviz.formats.neff import tar as neff_tar
from npuviz.formats.neff.archive import read_archive
from npuviz.formats.neff.definition import complete_subgraph, parse_subgraph, subgraph_members
from npuviz.formats.neff.graph import KELF_MEMBER, GraphTensor, graph_object
from npuviz.formats.neff.header import HEADER_BYTES, header_bytes, parse_header
from npuviz.formats.neff.json_members import Fields, object_bytes, parse_object
from npuviz.formats.neff.model import (
    ArchiveEntry,
    Neff,
    NeffHeader,
    Payload,
    Subgraph,
)
from npuviz.formats.neff.rules.check import check_neff
from npuviz.formats.neff.rules.table import shown

DEFAULT_LIMIT_BYTES = 4 << 30
GRAPH_MEMBER = "neff.json"
INFO_MEMBER = "info.json"


def read_neff(path: Path, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> Neff:
    """Read a NEFF; broken rules that do not prevent its use are in `warnings`.

    Raises FormatError for a file that is no NEFF, is damaged, or breaks a rule that makes it
    unusable. Never holds more than `limit_bytes` of content.
    """
    return neff_from_bytes(read_file(path, limit_bytes), str(path), limit_bytes)


def neff_from_bytes(data: bytes, name: str, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> Neff:
    """Read a NEFF as `read_neff`, from the bytes of a file; `name` is its name in messages."""
    with no_collection():
        neff = parse_neff(data, name, limit_bytes)
        findings = check_neff(neff)
    fatal = [each for each in findings if each.is_fatal]
    if fatal:
        more = f"; and {len(fatal) - 1} more, see npuviz neff check" if len(fatal) > 1 else ""
        raise FormatError(name, field=f"{fatal[0].where}: {fatal[0].text}{more}")
    return replace(neff, warnings=findings)


def parse_neff(data: bytes, name: str, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> Neff:
    """Parse a NEFF without checking its rules, for tools that list everything that is wrong.

    Raises FormatError when the header, the archive or the type of a value is wrong, or a file is missing.
    """
    container = open_container(data, name, limit_bytes)
    parsed = neff_from_members(container.members, container.header, name)
    return replace(container, subgraphs=parsed.subgraphs, kelf=parsed.kelf, graph=parsed.graph)


def open_container(data: bytes, name: str, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> Neff:
    """Read header and members without parsing them, which is enough to unpack. Raises FormatError."""
    view = memoryview(data)
    header = parse_header(view, name)
    end = HEADER_BYTES + header.data_size
    archive = read_archive(view[HEADER_BYTES:end], name, limit_bytes)
    return Neff(
        name,
        header,
        archive.members,
        layout=archive.layout,
        is_compressed=archive.is_compressed,
        tar_trailer=archive.trailer,
        unused_bytes=len(data) - end + archive.unused,
    )


def neff_from_members(members: Mapping[str, Payload], header: NeffHeader, name: str) -> Neff:
    """Make a NEFF of these members, parsed but not checked. Raises FormatError as `parse_neff` does."""
    if GRAPH_MEMBER not in members:
        raise FormatError(name, field="archive", expected=f"a member {GRAPH_MEMBER!r}", found="none")
    graph = parse_object(members[GRAPH_MEMBER], name, GRAPH_MEMBER)
    kelf: dict[str, Any] = {}
    subgraphs: list[Subgraph] = []
    for kelf_member in _kelf_members(graph, name):
        if kelf_member not in members:
            raise FormatError(
                name,
                field=GRAPH_MEMBER,
                expected=f"its member {kelf_member[:200]!r}",
                found="none in the archive",
            )
        content = parse_object(members[kelf_member], name, kelf_member)
        kelf = kelf or content
        subgraphs.extend(_subgraphs_of(content, members, name, kelf_member))
    names = [each.name for each in subgraphs]
    if len(set(names)) != len(names):
        raise FormatError(name, field=KELF_MEMBER, expected="each subgraph once", found=shown(names))
    return Neff(name, header, members, tuple(subgraphs), kelf, graph)


def _kelf_members(graph: dict[str, Any], name: str) -> list[str]:
    """Return the kelf files that the compute nodes of neff.json name, in order."""
    found: list[str] = []
    nodes = Fields(graph, name, GRAPH_MEMBER).objects("nodes")
    for index, node in enumerate(nodes):
        attributes = Fields(node, name, f"{GRAPH_MEMBER}, nodes[{index}]").mapping("attrs")
        if "kelf" in attributes:
            kelf = Fields(attributes, name, f"{GRAPH_MEMBER}, nodes[{index}].attrs").text("kelf")
            if kelf not in found:
                found.append(kelf)
    return found or [KELF_MEMBER]


def _subgraphs_of(
    kelf: dict[str, Any], members: Mapping[str, Payload], name: str, kelf_member: str
) -> Iterator[Subgraph]:
    fields = Fields(kelf, name, kelf_member)
    fields.text("target", "")
    fields.text("version", "")
    graphs = fields.objects("graphs")
    if not graphs:
        fields.fail("graphs", "at least one subgraph")
    for index, value in enumerate(graphs):
        each = Fields(value, name, f"{kelf_member}, graphs[{index}]")
        yield parse_subgraph(members, each.text("definition"), each.text("name"), name)


# --- building ----------------------------------------------------------------------------------


def make_neff(
    subgraphs: Sequence[Subgraph],
    extra_members: Mapping[str, Payload] | None = None,
    *,
    name: str,
    target: str,
    lnc_size: int = 1,
    inputs: Sequence[GraphTensor] = (),
    outputs: Sequence[GraphTensor] = (),
    graph: Mapping[str, Any] | None = None,
    info: Mapping[str, Any] | None = None,
    feature_bits: int = 0,
) -> Neff:
    """Make a NEFF in memory. Programs, files and `extra_members` are referred to, never copied.

    `graph` replaces the neff.json made from `inputs` and `outputs`. The rules are not checked: see
    `check_neff`. Hash and uuid are filled when it is written.
    """
    kelf = {
        "graphs": [
            {"definition": f"{each.folder or each.name}/def.json", "name": each.name} for each in subgraphs
        ],
        "version": "0.5",
        "target": target,
    }
    graph = graph if graph is not None else graph_object(inputs, outputs)
    cores = max(1, len(subgraphs) // max(1, lnc_size))
    per_node = bytes([min(cores, 255)]) + bytes(63)
    about = {
        "tool_version": "npuviz",
        "name": name,
        "num_tpb": cores,
        "num_tpb_requested": cores,
        "num_tpb_per_node": list(per_node),
        **(info or {}),
    }
    members: dict[str, Payload] = {
        INFO_MEMBER: object_bytes(about, indented=True),
        KELF_MEMBER: object_bytes(kelf, indented=True),
    }
    for subgraph in subgraphs:
        members.update(subgraph_members(subgraph))
    members.update(extra_members or {})
    members[GRAPH_MEMBER] = object_bytes(graph, indented=True)
    header = NeffHeader(
        name=name.encode()[:255],
        num_tpb=cores,
        requested_tpb_count=cores,
        tpb_per_node=per_node,
        feature_bits=feature_bits,
        lnc_size=lnc_size,
    )
    return Neff(name, header, members, tuple(map(complete_subgraph, subgraphs)), kelf, graph)


# --- writing -----------------------------------------------------------------------------------


def write_neff(neff: Neff, path: Path, compression: int = 1) -> None:
    """Write the members of a NEFF; the file appears whole or not at all.

    `compression` is the gzip level 1..9, 0 for a plain tar. Members and tar are byte for byte those
    that were read; a gzip stream may differ. Raises OSError, and FormatError for a name that a tar
    cannot hold.
    """
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name[:100]}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            _write(neff, stream, compression)
        # mkstemp makes files that only their owner can read.
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(temporary).unlink()
        raise


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def neff_to_bytes(neff: Neff, compression: int = 1) -> bytes:
    """Return the bytes of the file that `write_neff` writes."""
    stream = io.BytesIO()
    _write(neff, stream, compression)
    return stream.getvalue()


def _write(neff: Neff, stream: BinaryIO, compression: int) -> None:
    header = neff.header
    digest = hashlib.sha256() if header.pkg_version == 1 else hashlib.md5(usedforsecurity=False)

    def hashed() -> Iterator[Payload]:
        for chunk in neff_tar.tar_chunks(neff.members, neff.layout, neff.tar_trailer):
            digest.update(chunk)
            yield chunk

    stream.write(bytes(HEADER_BYTES))
    size = 0
    for chunk in neff_tar.gzip_chunks(hashed(), compression) if compression else hashed():
        stream.write(chunk)
        size += len(chunk)
    if not any(header.hash):
        header = replace(header, hash=digest.digest())
    if not any(header.uuid):
        header = replace(header, uuid=_uuid_of(digest.digest()))
    stream.seek(0)
    stream.write(header_bytes(replace(header, header_size=HEADER_BYTES, data_size=size)))


def _uuid_of(digest: bytes) -> bytes:
    """Return a version-8 UUID made from the content, so that equal content gives equal files."""
    raw = bytearray(digest[:16])
    raw[6] = raw[6] & 0x0F | 0x80
    raw[8] = raw[8] & 0x3F | 0x80
    return bytes(raw)


def layout_of(neff: Neff) -> tuple[ArchiveEntry, ...]:
    """Return one entry per member and folder, in the order in which they are written."""
    known = {each.name for each in neff.layout}
    kept = tuple(each for each in neff.layout if each.is_folder or each.name in neff.members)
    return kept + tuple(ArchiveEntry(name) for name in neff.members if name not in known)
