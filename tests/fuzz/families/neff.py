"""NEFF files: archives of JSON, instruction streams and debug records."""

import gzip
import io
import tarfile
import tempfile
from pathlib import Path
from random import Random

from npuviz.base.progress import NoProgress
from npuviz.formats.neff.file import read_neff
from npuviz.sim.target import LoadRequest
from npuviz.targets.neuroncore.target import TARGET
from npuviz.workbench.resources import sample_models_path
from tests.formats.neff.cases import file_of_tar, small_bytes
from tests.formats.neff.test_damage import use_everything
from tests.fuzz.driving import drive, warm_up
from tests.fuzz.mutations import change_bytes, change_json, change_text

SUFFIX = ".neff"
SHARE = 60
_HEADER = 1024


def seeds() -> list[bytes]:
    """A file with every kind of member, compressed and not, and a program that npuviz wrote."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "m.neff"
        TARGET.compile(LoadRequest(sample_models_path() / "tiny_cnn.onnx"), out, NoProgress())
        written = out.read_bytes()
    return [small_bytes(), small_bytes(0), written]


def mutate(data: bytes, rng: Random) -> bytes:
    """Change one member of the archive, its name or its kind; seldom the bytes of the file."""
    if rng.random() < 0.15:
        return change_bytes(data[:_HEADER], rng)[:_HEADER].ljust(_HEADER, b"\0") + data[_HEADER:]
    try:
        members = _members(data)
    except (OSError, tarfile.TarError, EOFError, ValueError):
        return change_bytes(data, rng)
    if not members:
        return change_bytes(data, rng)
    for _ in range(rng.randint(1, 2)):
        at = rng.randrange(len(members))
        info, content = members[at]
        kind = rng.randrange(20)
        if kind == 0:
            del members[at]
        elif kind == 1:
            members.append((info, members[rng.randrange(len(members))][1]))
        elif kind == 2:
            info.name = change_text(info.name, rng)[:200].replace("\0", "")
        elif kind == 3:
            info.type = rng.choice((tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE))
            info.linkname = "/etc/passwd"
        elif content[:1] in (b"{", b"["):
            members[at] = info, change_json(content, rng)
        else:
            members[at] = info, change_bytes(content, rng)
        if not members:
            break
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", errors="replace") as archive:
        for info, content in members:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return file_of_tar(stream.getvalue())


def _members(data: bytes) -> list[tuple[tarfile.TarInfo, bytes]]:
    body = data[_HEADER:]
    tar = gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body
    with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
        found: list[tuple[tarfile.TarInfo, bytes]] = []
        for info in archive.getmembers():
            file = archive.extractfile(info) if info.isfile() else None
            found.append((info, file.read() if file is not None else b""))
        return found


def prepare() -> None:
    """Have the kernels."""
    warm_up("neuroncore")


def attempt(path: Path) -> object:
    """Read it as a file, then as a program."""
    use_everything(read_neff(path))
    return drive(path)
