import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from npuviz.base.errors import FormatError, UsageError
from npuviz.formats.neff.file import DEFAULT_LIMIT_BYTES, neff_to_bytes, open_container, read_neff, write_neff
from npuviz.workbench.headless.neff import check, check_object, check_text, pack, parse_limit, unpack
from npuviz.workbench.headless.neff_manifest import MANIFEST
from tests.formats.neff.cases import file_of_tar, real_file, small_neff, with_json, with_members
from tests.formats.neff.test_archive import tar_of


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.neff"
    write_neff(small_neff(), path)
    return path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_unpack_writes_every_member_and_nothing_else(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    neff = unpack(small, out)
    files = {path.relative_to(out).as_posix(): path for path in out.rglob("*") if path.is_file()}
    assert set(files) == {*neff.members, MANIFEST}
    assert all(files[name].read_bytes() == content for name, content in neff.members.items())
    assert names(tmp_path) == ["deep", "small.neff"]
    assert names(tmp_path / "deep") == ["out"]


def test_pack_after_unpack_gives_the_same_file(small: Path, tmp_path: Path) -> None:
    unpack(small, tmp_path / "out")
    packed = pack(tmp_path / "out", tmp_path / "again.neff")
    assert (packed.missing, packed.is_changed) == ((), False)
    assert (tmp_path / "again.neff").read_bytes() == small.read_bytes()


def test_the_real_file_is_given_back(tmp_path: Path) -> None:
    data = real_file().read_bytes()
    unpack(real_file(), tmp_path / "out")
    again = tmp_path / "again.neff"
    packed = pack(tmp_path / "out", again)
    assert not packed.is_changed
    # Header but data_size, and the tar; the gzip stream itself may differ.
    assert again.read_bytes()[:16] + again.read_bytes()[24:1024] == data[:16] + data[24:1024]
    first, second = open_container(data, "a"), open_container(again.read_bytes(), "b")
    assert neff_to_bytes(first, 0) == neff_to_bytes(second, 0)
    assert list(first.members) == list(second.members)


def test_a_plain_tar_stays_plain_and_any_can_become_plain(tmp_path: Path, small: Path) -> None:
    plain = tmp_path / "plain.neff"
    write_neff(small_neff(), plain, 0)
    unpack(plain, tmp_path / "out")
    pack(tmp_path / "out", tmp_path / "again.neff")
    assert (tmp_path / "again.neff").read_bytes() == plain.read_bytes()
    unpack(small, tmp_path / "other")
    pack(tmp_path / "other", tmp_path / "made.neff", plain=True)
    assert not read_neff(tmp_path / "made.neff").is_compressed


def test_a_changed_member_gives_a_new_hash_and_uuid(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    unpack(small, out)
    (out / "sg00" / "raw.bin").write_bytes(b"ABCDE")
    (out / "sg00" / "new").mkdir()
    (out / "sg00" / "new" / "file").write_bytes(b"1")
    (out / "npuviz" / "program.json").unlink()
    packed = pack(out, tmp_path / "again.neff")
    assert packed.is_changed
    assert packed.missing == ("npuviz/program.json",)
    before, after = read_neff(small), read_neff(tmp_path / "again.neff")
    assert after.warnings == ()
    assert after.header.uuid != before.header.uuid
    assert bytes(after.members["sg00/raw.bin"]) == b"ABCDE"
    assert list(after.members)[-1] == "sg00/new/file"


def test_the_header_can_be_changed_in_the_manifest(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    unpack(small, out)
    edit(out, "header", {**manifest(out)["header"], "name": "mine", "feature_bits": 1 << 63, "lnc_size": 1})
    pack(out, tmp_path / "again.neff")
    header = read_neff(tmp_path / "again.neff").header
    assert (header.name.rstrip(b"\0"), header.feature_bits) == (b"mine", 1 << 63)
    assert header.uuid == read_neff(small).header.uuid


def manifest(folder: Path) -> dict[str, Any]:
    return json.loads((folder / MANIFEST).read_text())


def edit(folder: Path, key: str, value: Any) -> None:
    (folder / MANIFEST).write_text(json.dumps({**manifest(folder), key: value}))


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("format", "other", "format: expected 'npuviz unpacked NEFF 1'"),
        ("tar_trailer", -1, "tar_trailer: expected 0 to 1048576"),
        ("tar_trailer", 1 << 40, "tar_trailer"),
        ("compressed", 1, "compressed: expected true or false"),
        ("header", [], "header: expected an object"),
        ("header", {"lnc_size": 1 << 32}, "header.lnc_size: expected an integer of 32 bits"),
        ("header", {"num_tpb": -1}, "header.num_tpb"),
        ("header", {"hash": "zz"}, "header.hash: expected hexadecimal digits"),
        ("header", {"uuid": "00" * 17}, "header.uuid: expected at most 16 bytes"),
        ("header", {"name": "x" * 300}, "header.name: expected at most 256 bytes"),
        ("members", [1], "members[0]: expected an object"),
        ("members", [{"name": "../up"}], "'../up', a path with"),
        ("members", [{"name": "a", "mode": 1 << 20}], "members[0].mode: expected a number that"),
        ("members", [{"name": "a", "raw": "00"}], "members[0].raw: expected whole blocks"),
        ("members", [{"mode": 1}], "members[0].name: expected this key"),
    ],
)
def test_a_damaged_manifest_is_refused(small: Path, tmp_path: Path, key: str, value: Any, text: str) -> None:
    out = tmp_path / "out"
    unpack(small, out)
    edit(out, key, value)
    with pytest.raises(FormatError) as caught:
        pack(out, tmp_path / "again.neff")
    assert text in str(caught.value)
    assert not (tmp_path / "again.neff").exists()


def test_a_folder_without_a_manifest_gets_a_header_of_its_own(tmp_path: Path) -> None:
    source = tmp_path / "pair.neff"
    write_neff(small_neff("trn2", cores=2, lnc_size=2), source)
    out = tmp_path / "out"
    unpack(source, out)
    (out / MANIFEST).unlink()
    packed = pack(out, tmp_path / "again.neff")
    again = read_neff(tmp_path / "again.neff")
    assert again.warnings == ()
    assert (again.header.lnc_size, again.header.num_tpb, again.header.name.rstrip(b"\0")) == (2, 1, b"out")
    assert list(packed.neff.members)[-1] == "neff.json"
    assert dict(again.members) == dict(read_neff(source).members)


def test_the_file_may_be_packed_into_its_own_folder_twice(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    unpack(small, out)
    for _ in range(2):
        pack(out, out / "inside.neff")
        assert (out / "inside.neff").read_bytes() == small.read_bytes()


def test_links_are_not_followed_when_packing(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    unpack(small, out)
    (out / "sg00" / "link").symlink_to("/etc/passwd")
    with pytest.raises(UsageError, match="a link, which a NEFF cannot hold"):
        pack(out, tmp_path / "again.neff")
    assert not (tmp_path / "again.neff").exists()


def test_pack_minds_the_limit_and_refuses_what_it_cannot_read(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    unpack(small, out)
    with pytest.raises(FormatError, match="at most 1000 B of content"):
        pack(out, tmp_path / "again.neff", 1000)
    (out / "sg00" / "def.json").write_text("[")
    with pytest.raises(FormatError, match=r"sg00/def\.json, line 1: expected JSON"):
        pack(out, tmp_path / "again.neff")
    with pytest.raises(UsageError, match="no such folder"):
        pack(out, tmp_path / "no" / "again.neff")
    with pytest.raises(UsageError, match="a folder, not a file"):
        pack(out, tmp_path)
    with pytest.raises(UsageError, match="expected a folder"):
        pack(small, tmp_path / "again.neff")
    assert names(tmp_path) == ["out", "small.neff"]


@pytest.mark.parametrize("kind", ["file", "full", "link", "dangling"])
def test_unpack_never_writes_into_what_is_there(kind: str, small: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    other = tmp_path / "other"
    other.mkdir()
    if kind == "file":
        out.write_bytes(b"keep")
    elif kind == "full":
        out.mkdir()
        (out / "keep").write_bytes(b"keep")
    else:
        out.symlink_to(other if kind == "link" else tmp_path / "nowhere")
    before = names(tmp_path)
    with pytest.raises(UsageError, match="does not exist yet or is empty"):
        unpack(small, out)
    assert names(tmp_path) == before
    assert names(other) == []
    empty = tmp_path / "empty"
    empty.mkdir()
    unpack(small, empty)
    assert "neff.json" in names(empty)


@pytest.mark.parametrize("name", ["/abs", "../up", "a/../../up", "sg00\\x"])
def test_a_hostile_archive_writes_nothing(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "inside"
    folder.mkdir()
    path = tmp_path / "evil.neff"
    path.write_bytes(file_of_tar(tar_of(("fine", b"1"), (name, b"2"))))
    with pytest.raises(FormatError, match="names of files inside the archive"):
        unpack(path, folder / "out")
    assert names(tmp_path) == ["evil.neff", "inside"]
    assert names(folder) == []


@pytest.mark.parametrize("name", [MANIFEST, f"{MANIFEST}/below"])
def test_a_member_in_the_place_of_the_manifest_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.neff"
    path.write_bytes(file_of_tar(tar_of((name, b"1"))))
    with pytest.raises(FormatError, match="expected no member called"):
        unpack(path, tmp_path / "out")
    assert names(tmp_path) == ["odd.neff"]


def test_a_disk_that_fills_leaves_nothing(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Path.write_bytes
    written: list[Path] = []

    def failing(path: Path, data: bytes) -> int:
        if len(written) == 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        written.append(path)
        return original(path, data)

    monkeypatch.setattr(Path, "write_bytes", failing)
    with pytest.raises(OSError, match="No space left"):
        unpack(small, tmp_path / "out")
    monkeypatch.undo()
    assert len(written) == 4
    assert names(tmp_path) == ["small.neff"]


def test_what_cannot_be_parsed_can_still_be_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "odd.neff"
    path.write_bytes(file_of_tar(tar_of(("neff.json", b"["), ("sg00/def.json", b""))))
    unpack(path, tmp_path / "out")
    assert (tmp_path / "out" / "neff.json").read_bytes() == b"["
    checked = check(path)
    assert (checked.neff.subgraphs, checked.errors) == ((), 1)
    assert "neff.json, line 1" in checked.findings[0].where


def test_check_lists_all_that_is_wrong(tmp_path: Path) -> None:
    neff = small_neff()
    neff = with_members(neff, with_json(neff, "sg00/def.json", "var.x.type", "magic"))
    neff = with_members(neff, with_json(neff, "sg00/def.json", "var.y.alignment", 3))
    neff = with_members(neff, {**neff.members, "sg00/pe.dbg": b"\x07"})
    path = tmp_path / "bad.neff"
    write_neff(neff, path)
    checked = check(path)
    assert checked.errors == 2
    assert [each.rule for each in checked.findings] == [
        "variable.type",
        "variable.alignment",
        "debug.records",
    ]
    lines = check_text(path, checked.findings).splitlines()
    assert lines[0].startswith("error   variable.type ")
    assert lines[-1] == f"{path}: 2 errors, 1 warning"
    found = check_object(path, checked)
    assert (found["errors"], found["warnings"], found["target"]) == (2, 1, "trn2")
    assert found["findings"][2]["severity"] == "warning"


@pytest.mark.parametrize(
    ("text", "size"),
    [("5", 5), ("4GiB", 4 << 30), ("2k", 2048), ("3MiB", 3 << 20), ("1T", 1 << 40), ("7b", 7)],
)
def test_limits(text: str, size: int) -> None:
    assert parse_limit({"limit": text}) == size
    assert parse_limit({}) == DEFAULT_LIMIT_BYTES == 4 << 30


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5G", "GiB", "4GG", "٤", "9" * 20])
def test_wrong_limits_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected bytes, for example"):
        parse_limit({"limit": text})


def test_other_settings_are_refused() -> None:
    with pytest.raises(UsageError, match="the only setting is limit"):
        parse_limit({"size": "4"})


def test_the_folder_may_be_the_current_one(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    unpack(small, Path("."))
    monkeypatch.undo()
    assert "neff.json" in names(here)
    assert names(tmp_path) == ["here", "small.neff"]
