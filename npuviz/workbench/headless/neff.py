"""`npuviz neff`: unpacks a NEFF to a folder, packs a folder to a NEFF, and checks a NEFF."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from npuviz.base.errors import FormatError, UsageError
from npuviz.base.names import is_number
from npuviz.base.units import format_bytes
from npuviz.formats.binary import file_size, read_file
from npuviz.formats.neff.debug import check_debug
from npuviz.formats.neff.file import (
    DEFAULT_LIMIT_BYTES,
    GRAPH_MEMBER,
    neff_from_members,
    open_container,
    parse_neff,
    write_neff,
)
from npuviz.formats.neff.json_members import object_bytes
from npuviz.formats.neff.model import Finding, Neff, NeffHeader, Payload
from npuviz.formats.neff.rules.check import check_neff
from npuviz.formats.neff.tar import member_name
from npuviz.workbench.headless.neff_manifest import MANIFEST, manifest_object, read_manifest, tar_digest

_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def parse_limit(settings: Mapping[str, str]) -> int:
    """Parse the setting `limit` to bytes, from 4294967296, 4096M or 4GiB. Raises UsageError, also for other
    keys."""
    unknown = [key for key in settings if key != "limit"]
    if unknown:
        raise UsageError(f"--set {unknown[0]}: the only setting is limit, for example --set limit=8GiB")
    text = settings.get("limit")
    if text is None:
        return DEFAULT_LIMIT_BYTES
    digits = text.lower().removesuffix("ib") if text.lower().endswith("ib") else text.lower()
    number = digits.rstrip("bkmgt")
    unit = digits[len(number) :]
    if not is_number(number, 15) or unit not in _UNITS:
        raise UsageError(f"--set limit={text}: expected bytes, for example 4294967296 or 4GiB")
    return int(number) * _UNITS[unit]


# --- unpack ------------------------------------------------------------------------------------


def unpack(file: Path, folder: Path, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> Neff:
    """Write every member of a NEFF below a folder that does not exist yet or is empty.

    The folder appears whole or not at all, and nothing is written anywhere else. Returns the
    container, not parsed. Raises FormatError, UsageError, OSError.
    """
    folder = folder.absolute()
    if os.path.lexists(folder) and (not folder.is_dir() or folder.is_symlink() or any(folder.iterdir())):
        raise UsageError(f"-o {folder}: expected a folder that does not exist yet or is empty")
    neff = open_container(read_file(file, limit_bytes), str(file), limit_bytes)
    if any(name.split("/", 1)[0] == MANIFEST for name in neff.members):
        raise FormatError(file, field="archive", expected=f"no member called {MANIFEST}", found="one")
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name[:100]}.", dir=folder.parent))
    try:
        _write_members(neff, temporary)
        temporary.chmod(0o755)
        temporary.replace(folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return neff


def _write_members(neff: Neff, folder: Path) -> None:
    for entry in neff.layout:
        if entry.is_folder:
            (folder / entry.name).mkdir(parents=True, exist_ok=True)
    for name, content in neff.members.items():
        # Names were checked when the archive was read: relative, without "..", no links.
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (folder / MANIFEST).write_bytes(object_bytes(manifest_object(neff), indented=True))


# --- pack --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Packed:
    """What `pack` wrote. missing  members of the manifest that the folder no longer has"""

    neff: Neff
    missing: tuple[str, ...]
    is_changed: bool
    """Whether the content differs from the unpacked one; hash and uuid are then new."""


def pack(folder: Path, file: Path, limit_bytes: int = DEFAULT_LIMIT_BYTES, plain: bool = False) -> Packed:
    """Write a NEFF of all files below a folder; `plain` leaves the tar uncompressed.

    After `unpack` without changes the header and the tar are byte for byte those of the original;
    only the gzip stream may differ. Broken rules do not prevent packing, an unreadable member does.
    Raises FormatError, UsageError, OSError; the file appears whole or not at all.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: expected a folder of an unpacked NEFF")
    if not file.parent.is_dir():
        raise UsageError(f"-o {file}: no such folder {file.parent}")
    if file.is_dir():
        raise UsageError(f"-o {file}: a folder, not a file")
    found = dict(_files_of(folder, file, limit_bytes))
    manifest_data = folder / MANIFEST
    if not manifest_data.is_file():
        neff = _new_neff(found, folder)
        write_neff(neff, file, 0 if plain else 1)
        return Packed(neff, (), True)
    manifest = read_manifest(manifest_data)
    names = {entry.name for entry in manifest.layout if not entry.is_folder}
    order = [entry.name for entry in manifest.layout if entry.name in found]
    order += [name for name in found if name not in names]
    neff = neff_from_members({name: found[name] for name in order}, manifest.header, str(folder))
    neff = replace(neff, layout=manifest.layout, tar_trailer=manifest.tar_trailer)
    is_changed = tar_digest(neff) != manifest.digest
    if is_changed:
        neff = replace(neff, header=replace(neff.header, hash=bytes(32), uuid=bytes(16)))
    write_neff(neff, file, 0 if plain or not manifest.is_compressed else 1)
    return Packed(neff, tuple(sorted(names - found.keys())), is_changed)


def _files_of(folder: Path, out: Path, limit_bytes: int) -> Iterator[tuple[str, Payload]]:
    """Read every file below the folder: (member name, content), sorted, the graph member last."""
    paths: list[tuple[str, Path]] = []
    for base, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(base, name)
            if path.is_symlink():
                raise UsageError(f"{path}: a link, which a NEFF cannot hold")
        paths.extend((Path(base, name).relative_to(folder).as_posix(), Path(base, name)) for name in names)
    left = limit_bytes
    for name, path in sorted(paths, key=lambda each: (each[0] == GRAPH_MEMBER, each[0])):
        if name == MANIFEST or (out.exists() and path.samefile(out)):
            continue
        size = file_size(path)
        if size > left:
            raise FormatError(
                folder,
                expected=f"at most {format_bytes(limit_bytes)} of content",
                found="more",
                hint="--set limit=BYTES raises the limit",
            )
        content = read_file(path, left)
        left -= len(content)
        yield member_name(name, str(folder)), content


def _new_neff(members: dict[str, Payload], folder: Path) -> Neff:
    """Make a NEFF from a folder without a manifest: the header follows from the members."""
    neff = neff_from_members(members, NeffHeader(name=folder.name.encode()[:255]), str(folder))
    cores = len(neff.subgraphs)
    is_pair = cores == 2 and (neff.generation or 0) >= 3
    count = 1 if is_pair else min(cores, 255)
    header = replace(
        neff.header,
        num_tpb=count,
        requested_tpb_count=count,
        tpb_per_node=bytes([count]) + bytes(63),
        lnc_size=2 if is_pair else 1,
    )
    return replace(neff, header=header)


# --- check -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Checked:
    """Result of a check; `neff` has no subgraphs if its members could not be parsed."""

    neff: Neff
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> int:
        """How many findings are errors."""
        return sum(1 for each in self.findings if each.severity == "error")


def check(file: Path, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> Checked:
    """Check a NEFF against every rule. Raises FormatError only when the file is no NEFF at all."""
    data = read_file(file, limit_bytes)
    container = open_container(data, str(file), limit_bytes)
    try:
        neff = parse_neff(data, str(file), limit_bytes)
    except FormatError as error:
        text = str(error).removeprefix(f"{file}, ").removeprefix(f"{file}: ")
        where = error.field or "file"
        finding = Finding("content", "error", where, text.removeprefix(f"{where}: "), is_fatal=True)
        return Checked(container, (finding,))
    return Checked(neff, check_neff(neff) + check_debug(neff))


def check_object(file: Path, checked: Checked) -> dict[str, Any]:
    """Return the result of a check as plain data for `--json`."""
    neff = checked.neff
    return {
        "file": str(file),
        "target": neff.target,
        "errors": checked.errors,
        "warnings": len(checked.findings) - checked.errors,
        "findings": [
            {"rule": each.rule, "severity": each.severity, "where": each.where, "text": each.text}
            for each in checked.findings
        ],
    }


def check_text(file: Path, findings: Sequence[Finding]) -> str:
    """Write the result of a check as text, one finding a line."""
    errors = sum(1 for each in findings if each.severity == "error")
    lines = [f"{each.severity:7} {each.rule:24} {each.where}: {each.text}" for each in findings]
    lines.append(f"{file}: {_counted(errors, 'error')}, {_counted(len(findings) - errors, 'warning')}")
    return "\n".join(lines)


def _counted(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
