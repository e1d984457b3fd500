"""Containers that lie: members and files whose names, links, kinds or sizes lead out of them or never end.

Every attack is opened by the command line in a process of its own with little memory. As it must be is exit
code 2 with one line, or exit code 0 with what the container itself holds; no file beside it is read.
"""

import io
import json
import os
import resource
import shutil
import struct
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from benchmarks.soak import forks
from benchmarks.soak.conditions import refusal
from benchmarks.soak.outcome import Outcome
from benchmarks.soak.programs import SAMPLES, arguments, record, warm
from npuviz.cli.main import main

MEMORY_BYTES = 12 << 30
"""Address space of an attack; what compiled code, libraries and a run take of it is about 4 GiB."""
SECONDS = 20.0
MODEL = SAMPLES / "tiny_cnn_int8.onnx"
SECRET = 1234.5
COUNT = 'select count(*) as n, sum("end") as s from intervals'
BUNDLE_COMMANDS = ("info", "query", "export")

PART_NAMES = (
    "../other/{part}", "{outside}/{part}", "*.parquet", "intervals-*.parquet", "i[n]tervals-000000.parquet",
    "?.parquet", "{{a,b}}.parquet", "a'b.parquet", 'a"b.parquet', "a;b.parquet", "a\nb.parquet", "", ".",
    "..", "manifest.json", "model.json", "x\0y", "a%20b.parquet", "s3://x/y.parquet", "http://localhost:1/x.parquet",
    "/dev/zero", "/etc/passwd",
)  # fmt: skip
BUNDLE_NAMES = (
    "st*r", "q?m", "br[a]cket", "quo'te", 'dq"x', "semi;colon", "sp ace", "per%20cent", "{a,b}", "-dash",
    "new\nline",
)  # fmt: skip


@dataclass(frozen=True)
class Attack:
    """One container and how it is opened.

    what      in words;  command  arguments of `npuviz`
    allowed   what may be printed with exit code 0; None: anything that has no secret in it
    """

    what: str
    command: tuple[str, ...]
    allowed: str | None = None


def run(share: float) -> Iterator[Outcome]:
    """Attack through every kind of container. share  of the attacks that are tried"""
    warm("systolic")
    warm("rk3588")
    step = max(1, round(1 / share))
    for kind, attacks in KINDS.items():
        outcome = Outcome("containers", kind)
        with tempfile.TemporaryDirectory(prefix="npuviz-soak-") as name:
            folder = Path(name)
            for attack in list(attacks(folder))[::step]:
                outcome.count(judge(attack, folder))
        yield outcome


def judge(attack: Attack, folder: Path) -> str:
    """Describe what is wrong about the end of an attack, "" if nothing is."""

    def work() -> int:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        return main(list(attack.command))

    try:
        ended = forks.run(work, folder, SECONDS)
    except TimeoutError as error:
        return f"{attack.what}: {error}"
    if str(SECRET) in ended.out + ended.error or "root:" in ended.out + ended.error:
        return f"{attack.what}: another file's contents were shown"
    if ended.code == 0:
        is_right = attack.allowed is None or ended.out == attack.allowed
        return "" if is_right else f"{attack.what}: read {ended.out[:80]!r}, not {attack.allowed!r}"
    fault = refusal(ended)
    return f"{attack.what}: {fault}" if fault else ""


# --- bundles


def _bundle(folder: Path) -> tuple[Path, str, str]:
    """Make a good bundle, another one beside it with other rows, a part's name, and the answer to `COUNT`."""
    good, other = folder / "good", folder / "other"
    command = ["run", str(MODEL), "--target", "rk3588", "--record", str(other), "--json"]
    for ended in (
        forks.run(lambda: record("systolic", good), folder),
        forks.run(lambda: main(command), folder),
        answer := forks.run(lambda: main(["query", str(good), COUNT]), folder),
    ):
        if ended.code:
            raise RuntimeError(ended.error)
    parts = json.loads((good / "manifest.json").read_text())["parts"]
    return good, next(part["file"] for part in parts if "intervals" in part["file"]), answer.out


def _opened(what: str, path: Path, answer: str, out: Path) -> Iterator[Attack]:
    yield Attack(f"{what}: info", ("info", str(path.absolute())))
    yield Attack(f"{what}: query", ("query", str(path.absolute()), COUNT), answer)
    yield Attack(f"{what}: export", ("export", str(path.absolute()), "--format", "csv", "--out", str(out)))


def bundle_folders(folder: Path) -> Iterator[Attack]:
    """Make bundles with links, devices, pipes and folders instead of files, and part names that lead
    elsewhere."""
    good, part, answer = _bundle(folder)
    number = 0

    def changed(what: str, change: Callable[[Path, dict[str, Any]], None]) -> Iterator[Attack]:
        nonlocal number
        number += 1
        copy = folder / f"bundle{number}"
        shutil.copytree(good, copy)
        manifest = json.loads((copy / "manifest.json").read_text())
        change(copy, manifest)
        (copy / "manifest.json").write_text(json.dumps(manifest))
        yield from _opened(what, copy, answer, folder / f"out{number}.csv")

    def renamed(name: str) -> Callable[[Path, dict[str, Any]], None]:
        def change(copy: Path, manifest: dict[str, Any]) -> None:
            if name and "/" not in name and "\0" not in name and not (copy / name).exists():
                (copy / part).rename(copy / name)
            for entry in manifest["parts"]:
                if entry["file"] == part:
                    entry["file"] = name

        return change

    for pattern in PART_NAMES:
        name = pattern.format(part=part, outside=folder / "other")
        yield from changed(f"a part called {name!r}", renamed(name))

    def replaced(make: Callable[[Path], None]) -> Callable[[Path, dict[str, Any]], None]:
        def change(copy: Path, manifest: dict[str, Any]) -> None:
            (copy / part).unlink()
            make(copy / part)

        return change

    for what, make in (
        ("a link to another bundle", lambda path: path.symlink_to(folder / "other" / part)),
        ("a link to a device", lambda path: path.symlink_to("/dev/zero")),
        ("a pipe", os.mkfifo),
        ("a folder", Path.mkdir),
        ("nothing", lambda path: None),
    ):
        yield from changed(f"instead of a part {what}", replaced(make))
    for what, make in (
        ("a link", lambda path: path.symlink_to(folder / "other" / "manifest.json")),
        ("a pipe", os.mkfifo),
        ("a folder", Path.mkdir),
    ):
        copy = folder / f"manifest-{what[2:]}"
        shutil.copytree(good, copy)
        (copy / "manifest.json").unlink()
        make(copy / "manifest.json")
        yield from _opened(f"instead of the manifest {what}", copy, "", folder / "manifest.csv")
    for name in BUNDLE_NAMES:
        shutil.copytree(good, folder / name)
        yield from _opened(f"a bundle called {name!r}", folder / name, answer, folder / "name.csv")


def bundle_archives(folder: Path) -> Iterator[Attack]:
    """Make zip archives with duplicate members, paths, links, bombs and false sizes."""
    good, part, answer = _bundle(folder)
    manifest = json.loads((good / "manifest.json").read_text())

    def written(name: str, fill: Callable[[zipfile.ZipFile], None]) -> Iterator[Attack]:
        path = folder / f"{name}.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            fill(archive)
        yield from _opened(f"a zip with {name}", path, answer, folder / "zip.csv")

    def members(archive: zipfile.ZipFile, without: tuple[str, ...] = (), before: str = "") -> None:
        for path in good.iterdir():
            if path.name not in without:
                archive.writestr(before + path.name, path.read_bytes())

    def duplicate(archive: zipfile.ZipFile) -> None:
        members(archive)
        archive.writestr(part, (folder / "other" / part).read_bytes())

    def upwards(archive: zipfile.ZipFile) -> None:
        archive.writestr("manifest.json", json.dumps(manifest).replace(part, "../" + part))
        archive.writestr("../" + part, (good / part).read_bytes())
        members(archive, ("manifest.json", part))

    def bomb(archive: zipfile.ZipFile) -> None:
        members(archive, (part,))
        _zeros(archive, part)

    def manifest_bomb(archive: zipfile.ZipFile) -> None:
        _zeros(archive, "manifest.json")

    def link(archive: zipfile.ZipFile) -> None:
        info = zipfile.ZipInfo(part)
        info.create_system, info.external_attr = 3, 0o120777 << 16
        archive.writestr(info, str(folder / "other" / part))
        members(archive, (part,))

    def two(archive: zipfile.ZipFile) -> None:
        members(archive)
        archive.writestr("b/manifest.json", b"{}")

    for name, fill in (
        ("duplicate members", duplicate), ("a path upwards", upwards), ("a part of 2 GiB of zeros", bomb),
        ("a manifest of 2 GiB of zeros", manifest_bomb), ("a link as a part", link),
        ("absolute names", lambda archive: members(archive, (), "/")), ("two manifests", two),
        ("nothing", lambda archive: None),
    ):  # fmt: skip
        yield from written(name, fill)
    with zipfile.ZipFile(folder / "whole.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        members(archive)
    data = bytearray((folder / "whole.zip").read_bytes())
    at = data.find(b"PK\x01\x02")
    while at >= 0:  # the directory says 10 bytes for every member
        struct.pack_into("<I", data, at + 24, 10)
        at = data.find(b"PK\x01\x02", at + 4)
    (folder / "lying.zip").write_bytes(data)
    yield from _opened("a zip whose sizes are not true", folder / "lying.zip", answer, folder / "zip.csv")


def _zeros(archive: zipfile.ZipFile, name: str) -> None:
    with archive.open(name, "w", force_zip64=True) as file:
        for _ in range(2048):
            file.write(bytes(1 << 20))


# --- arrays


def _npy(described: bytes, data: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(described)) + described + data


def _array_files() -> Iterator[tuple[str, bytes]]:
    stream = io.BytesIO()
    np.save(stream, np.array([{}], dtype=object), allow_pickle=True)
    yield "pickled objects", stream.getvalue()
    for what, kind, shape in (
        ("4 TiB that are not there", b"'<f4'", b"(1099511627776,)"),
        ("a negative size", b"'<f4'", b"(-1,)"),
        ("no elements", b"'<f4'", b"(0,4)"),
        ("records", b"[('a','<f4')]", b"(1,)"),
        ("texts", b"'<U4'", b"(1,)"),
        ("dates", b"'<M8[s]'", b"(1,)"),
    ):
        header = b"{'descr':" + kind + b",'fortran_order':False,'shape':" + shape + b"}"
        yield what, _npy(header, bytes(16))
    yield "900 brackets", _npy(b"(" * 900)
    yield "a call", _npy(b"__import__('os').getcwd()")


def arrays(folder: Path) -> Iterator[Attack]:
    """Make inputs (`--input`) from arrays that declare too much data, run code, or never end."""
    tensor = onnx.load(MODEL).graph.input[0].name

    def opened(what: str, path: Path) -> Attack:
        command = ("run", str(MODEL), "--target", "rk3588", "--input", f"{tensor}={path}")
        return Attack(f"an input of {what}", command)

    for number, (what, data) in enumerate(_array_files()):
        path = folder / f"{number}.npy"
        path.write_bytes(data)
        yield opened(what, path)
    os.mkfifo(folder / "pipe.npy")
    yield opened("a pipe", folder / "pipe.npy")
    yield opened("a device", Path("/dev/zero"))
    np.savez(folder / "archive.npz", a=np.zeros(3))
    yield opened("an archive", folder / "archive.npz")
    sparse = folder / "sparse.npy"
    sparse.write_bytes(_npy(b"{'descr':'|u1','fortran_order':False,'shape':(34359738368,)}"))
    os.truncate(sparse, 32 << 30)
    yield opened("32 GiB of holes", sparse)


# --- external data of models


def external_data(folder: Path) -> Iterator[Attack]:
    """Make models with weights in another file: outside the folder, links, devices, wrong offsets and
    sizes."""
    (folder / "secret.bin").write_bytes(np.full(4, SECRET, np.float32).tobytes())
    made = 0

    def model(location: str, offset: Any = None, length: Any = None) -> Path:
        nonlocal made
        made += 1
        place = folder / f"model{made}"
        place.mkdir()
        tensor = TensorProto(name="w", data_type=1, dims=[4], data_location=TensorProto.EXTERNAL)
        for key, value in (("location", location), ("offset", offset), ("length", length)):
            if value is not None:
                entry = tensor.external_data.add()
                entry.key, entry.value = key, str(value)
        x, y = (helper.make_tensor_value_info(name, 1, [4]) for name in "xy")
        graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [x], [y], [tensor])
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        (place / "m.onnx").write_bytes(proto.SerializeToString())
        return place

    def opened(what: str, place: Path) -> Iterator[Attack]:
        for command in ("info", "run"):
            yield Attack(f"{what}: {command}", (command, str(place / "m.onnx"), "--target", "rk3588"))

    def link(place: Path) -> None:
        (place / "link.bin").symlink_to(folder / "secret.bin")

    for location, make in (
        ("../secret.bin", None), (str(folder / "secret.bin"), None), ("link.bin", link), ("/dev/zero", None),
        ("device", lambda place: (place / "device").symlink_to("/dev/zero")),
        ("pipe", lambda place: os.mkfifo(place / "pipe")), ("dir", lambda place: (place / "dir").mkdir()),
        ("*", None), ("a\0b", None), ("", None), ("x" * 5000, None),
        ("sub/../../secret.bin", lambda place: (place / "sub").mkdir()),
        ("linked/secret.bin", lambda place: (place / "linked").symlink_to(folder)),
    ):  # fmt: skip
        place = model(location)
        if make:
            make(place)
        yield from opened(f"weights in {location[:40]!r}", place)
    for offset, length in (
        (1 << 62, None), (-1, None), (0, 1 << 60), ("x", None), (0, "1e9"), (0, -5), (2, 16),
        (1 << 64, 1 << 64),
    ):  # fmt: skip
        place = model("w.bin", offset, length)
        (place / "w.bin").write_bytes(bytes(16))
        yield from opened(f"weights at {offset}, {length} bytes", place)
    place = model("w.bin", 0, 16)
    (place / "w.bin").touch()
    os.truncate(place / "w.bin", 1 << 40)
    yield from opened("weights in 1 TiB of holes", place)


# --- compiled wafer programs


def wafers(folder: Path) -> Iterator[Attack]:
    """Make folders of compiled wafer programs whose array file has strange members, or is no array file."""
    good, name = Path(arguments("wavelet")[0]), "npuviz-wafer.npz"
    with zipfile.ZipFile(good / name) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    first = sorted(members)[0]

    def changed(what: str, make: Callable[[Path], None]) -> Iterator[Attack]:
        copy = folder / what.replace(" ", "-")
        shutil.copytree(good, copy)
        (copy / name).unlink()
        make(copy / name)
        for command in ("info", "run"):
            yield Attack(f"a wafer program with {what}: {command}", (command, str(copy)))

    def zipped(change: Callable[[zipfile.ZipFile], None], without: str = "") -> Callable[[Path], None]:
        def make(path: Path) -> None:
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
                for member, data in members.items():
                    if member != without:
                        archive.writestr(member, data)
                change(archive)

        return make

    stream = io.BytesIO()
    np.save(stream, np.array([{}], dtype=object), allow_pickle=True)
    for what, make in (
        ("a pipe", os.mkfifo), ("a folder", Path.mkdir),
        ("a device", lambda path: path.symlink_to("/dev/zero")), ("nothing", lambda path: None),
        ("duplicate members", zipped(lambda archive: archive.writestr(first, members[first]))),
        ("a member upwards", zipped(lambda archive: archive.writestr("../up.npy", b"x"))),
        ("pickled objects", zipped(lambda archive: archive.writestr(first, stream.getvalue()), first)),
        ("2 GiB of zeros", zipped(lambda archive: _zeros(archive, first), first)),
        ("a member less", zipped(lambda archive: None, first)),
    ):  # fmt: skip
        yield from changed(what, make)


KINDS: dict[str, Callable[[Path], Iterator[Attack]]] = {
    "bundles: folders": bundle_folders,
    "bundles: archives": bundle_archives,
    "arrays as inputs": arrays,
    "external data of models": external_data,
    "compiled wafer programs": wafers,
}
