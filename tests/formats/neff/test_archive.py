import io
import tarfile
import zlib
from dataclasses import replace

import pytest

from npuviz.base.errors import FormatError
from npuviz.formats.neff import archive
from npuviz.formats.neff.archive import read_archive
from npuviz.formats.neff.file import neff_to_bytes, open_container
from npuviz.formats.neff.model import ArchiveEntry
from npuviz.formats.neff.tar import header_block, member_name, tar_chunks
from tests.formats.neff.cases import file_of_tar, small_bytes


def tar_of(*members: tuple[str, bytes], form: int = tarfile.USTAR_FORMAT, **fields: object) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form) as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            for key, value in fields.items():
                setattr(info, key, value)
            tar.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def opened(tar: bytes, **options: bool) -> dict[str, bytes]:
    found = open_container(file_of_tar(tar, **options), "m.neff")
    return {name: bytes(content) for name, content in found.members.items()}


def refusal(tar: bytes) -> str:
    with pytest.raises(FormatError) as caught:
        open_container(file_of_tar(tar), "m.neff")
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
@pytest.mark.parametrize("compressed", [True, False])
def test_tars_of_other_tools_are_read_and_given_back(form: int, compressed: bool) -> None:
    long = "sg00/" + "long/" * 25 + "name.bin"
    tar = tar_of(("a.json", b"{}"), (long, b"x" * 700), ("empty", b""), form=form, mode=0o600, mtime=7)
    found = open_container(file_of_tar(tar, compressed=compressed), "m.neff")
    assert {name: bytes(data) for name, data in found.members.items()} == {
        "a.json": b"{}",
        long: b"x" * 700,
        "empty": b"",
    }
    assert neff_to_bytes(found, 0)[1024:] == tar


def test_a_member_that_grew_gets_a_new_header() -> None:
    found = open_container(file_of_tar(tar_of(("a", b"old"), ("b", b"same"), mode=0o600)), "m")
    changed = replace(found, members={"a": b"longer than before", "b": b"same", "c": b"new"})
    again = open_container(neff_to_bytes(changed), "m")
    assert {name: bytes(data) for name, data in again.members.items()} == changed.members
    assert again.layout[0].mode == 0o600


def test_folders_are_kept_and_leading_dots_dropped() -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name in (".", "./sg00"):
            folder = tarfile.TarInfo(name)
            folder.type = tarfile.DIRTYPE
            tar.addfile(folder)
        info = tarfile.TarInfo("./sg00/a")
        info.size = 1
        tar.addfile(info, io.BytesIO(b"1"))
    found = open_container(file_of_tar(stream.getvalue()), "m")
    assert list(found.members) == ["sg00/a"]
    assert [(entry.name, entry.is_folder) for entry in found.layout] == [
        (".", True),
        ("sg00", True),
        ("sg00/a", False),
    ]
    assert neff_to_bytes(found, 0)[1024:] == stream.getvalue()


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd",
        "../up",
        "a/../../up",
        "a/./b",
        "..",
        "a//b",
        "a\\b",
        "C:/x",
        "a\nb",
        "a/\x1b[31m",
        "x/" * 600,
        "n" * 300,
    ],
)
def test_names_that_leave_the_folder_are_refused(name: str) -> None:
    found = refusal(tar_of(("fine", b""), (name, b"data"), form=tarfile.PAX_FORMAT))
    assert "names of files inside the archive" in found


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        (tarfile.LNKTYPE, "hard link"),
        (tarfile.SYMTYPE, "symbolic link"),
        (tarfile.CHRTYPE, "device"),
        (tarfile.BLKTYPE, "device"),
        (tarfile.FIFOTYPE, "pipe"),
        (b"Z", "type b'Z'"),
    ],
)
def test_only_files_are_taken(kind: bytes, word: str) -> None:
    assert word in refusal(tar_of(("a", b""), type=kind, linkname="/etc/passwd"))


def test_a_member_twice_is_refused() -> None:
    assert "'a' twice" in refusal(tar_of(("a", b"1"), ("b", b""), ("a", b"2")))
    assert "'a' twice" in refusal(tar_of(("a", b"1"), ("./a", b"2")))


def test_a_name_as_file_and_folder_is_refused() -> None:
    assert "'a' as file and folder" in refusal(tar_of(("a/b/c", b"1"), ("a", b"2")))


def test_too_many_members_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert archive.MEMBER_LIMIT == 100_000
    monkeypatch.setattr(archive, "MEMBER_LIMIT", 1000)
    block = b"".join(header_block(ArchiveEntry(f"m{index}"), 0) for index in range(1001))
    assert "more than 1000 members" in refusal(block)
    assert len(opened(block[:-512])) == 1000


def test_damaged_tars_are_refused() -> None:
    tar = tar_of(("a", b"1" * 600))
    wrong = bytearray(tar)
    wrong[0] ^= 1
    assert "wrong one" in refusal(bytes(wrong))
    assert "cut off" in refusal(tar[:1000])
    assert "block of 512 bytes" in refusal(tar[:1536] + b"rest")
    assert "zero bytes after the last member" in refusal(tar[:-1] + b"x")
    assert "octal size" in refusal(_with_size(tar, b"00000000009\0"))
    assert "cut off" in refusal(_with_size(tar, b"77777777777\0"))
    assert "cut off" in refusal(_with_size(tar, b"\x80" + b"\xff" * 11))


def _with_size(tar: bytes, size: bytes) -> bytes:
    block = bytearray(tar[:512])
    block[124:136] = size
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block) + tar[512:]


def test_names_that_are_no_text_are_refused() -> None:
    block = bytearray(header_block(ArchiveEntry("a"), 0))
    block[0] = 0xFF
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    assert "a name in UTF-8" in refusal(bytes(block))


@pytest.mark.parametrize("record", [b"x", b"99 path=a\n", b"-1 path=a\n", b"11 size=-1\n", b"8 size=\n"])
def test_broken_pax_headers_are_refused(record: bytes) -> None:
    block = bytearray(header_block(ArchiveEntry("pax"), len(record)))
    block[156:157] = b"x"
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    tar = bytes(block) + record.ljust(512, b"\0") + header_block(ArchiveEntry("a"), 0)
    assert "pax header" in refusal(tar)


def bomb(size: int) -> bytes:
    """A gzip stream of one huge member of zeros, made without ever holding it."""
    stream = zlib.compressobj(9, zlib.DEFLATED, 31)
    parts = [stream.compress(header_block(ArchiveEntry("zeros"), size))]
    parts += [stream.compress(bytes(1 << 20)) for _ in range(size >> 20)]
    return b"".join(parts) + stream.flush()


def test_a_gzip_bomb_stops_at_the_limit() -> None:
    packed = bomb(64 << 20)
    assert len(packed) < 100_000
    with pytest.raises(FormatError, match="at most 8 MiB of content, found more; --set limit=BYTES"):
        read_archive(memoryview(packed), "m.neff", 8 << 20)
    assert len(read_archive(memoryview(packed), "m.neff", 65 << 20).members["zeros"]) == 64 << 20


def test_zeros_without_a_member_stop_at_once() -> None:
    packed = zlib.compress(bytes(16 << 20), 9, 31)
    with pytest.raises(FormatError, match="right checksum"):
        read_archive(memoryview(packed), "m.neff", 1 << 40)


def test_a_plain_tar_over_the_limit_is_refused() -> None:
    with pytest.raises(FormatError, match="at most 512 B of content"):
        open_container(file_of_tar(tar_of(("a", b"1")), compressed=False), "m", 512)


@pytest.mark.parametrize("payload", [b"", b"BZh9", b"\x1f\x8b", b"\x1f\x8b\x08" + bytes(20), bytes(600)])
def test_what_is_no_archive_is_refused(payload: bytes) -> None:
    with pytest.raises(FormatError, match="archive"):
        read_archive(memoryview(payload), "m.neff", 1 << 20)


def test_bytes_that_belong_to_nothing_are_counted() -> None:
    data = small_bytes()
    assert open_container(data, "m").unused_bytes == 0
    assert open_container(data + b"after", "m").unused_bytes == 5
    tar = zlib.compress(tar_of(("a", b"")), 1, 31)
    assert read_archive(memoryview(tar + bytes(9)), "m", 1 << 20).unused == 0
    assert read_archive(memoryview(tar + b"junk"), "m", 1 << 20).unused == 4


def test_names_too_long_for_a_tar_are_refused_when_writing() -> None:
    fits = "f" * 100 + "/" + "n" * 100
    tar = b"".join(bytes(chunk) for chunk in tar_chunks({fits: b"1"}, (), 1024))
    with tarfile.open(fileobj=io.BytesIO(tar)) as opened_tar:
        assert opened_tar.getnames() == [fits]
    with pytest.raises(FormatError, match="at most 100 bytes"):
        list(tar_chunks({"n" * 101: b""}, (), 0))


def test_our_tar_is_one_that_tarfile_reads() -> None:
    members = {"sg00/PE.bin": bytes(64), "neff.json": b"{}"}
    tar = b"".join(bytes(chunk) for chunk in tar_chunks(members, (), 1024))
    with tarfile.open(fileobj=io.BytesIO(tar)) as opened_tar:
        found = {each.name: opened_tar.extractfile(each) for each in opened_tar}
        assert {name: stream.read() for name, stream in found.items() if stream} == members
        first = opened_tar.getmember("sg00/PE.bin")
    assert (first.mode, first.uid, first.uname, first.mtime) == (0o664, 1000, "nobody", 0)


def test_a_name_from_a_disk_that_is_no_text_is_refused() -> None:
    assert member_name("a/b", "f") == "a/b"
    with pytest.raises(FormatError, match="control characters"):
        member_name("a\udcff", "f")


def test_members_of_any_archive_are_only_bytes() -> None:
    assert opened(tar_of(("a", b"1"), ("b", b"2" * 100_000))) == {"a": b"1", "b": b"2" * 100_000}
