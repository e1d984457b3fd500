import json
from pathlib import Path

import pytest

from npuviz.formats.neff.file import write_neff
from tests.cli.refusals import Captured, done, names, refused
from tests.formats.neff.cases import file_of_tar, real_file, small_neff, with_json, with_members
from tests.formats.neff.test_archive import bomb, tar_of


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.neff"
    write_neff(small_neff(), path)
    return path


def test_unpack_and_pack(small: Path, tmp_path: Path, capsys: Captured) -> None:
    out, again = tmp_path / "out", tmp_path / "again.neff"
    assert done(["neff", "unpack", str(small), "-o", str(out)], capsys) == f"23 members in {out}\n"
    found = json.loads(done(["neff", "pack", str(out), "-o", str(again), "--json"], capsys))
    assert found == {"file": str(again), "members": 23, "missing": [], "changed": False}
    assert again.read_bytes() == small.read_bytes()
    (out / "npuviz" / "program.json").unlink()
    text = done(["neff", "pack", str(out), "-o", str(again), "--plain"], capsys)
    assert text == f"22 members in {again}; no longer there: npuviz/program.json\n"
    found = json.loads(done(["neff", "unpack", str(again), "-o", str(tmp_path / "o2"), "--json"], capsys))
    assert found == {"folder": str(tmp_path / "o2"), "members": 22}


def test_check_of_a_sound_file(small: Path, capsys: Captured) -> None:
    assert done(["neff", "check", str(small)], capsys) == f"{small}: 0 errors, 0 warnings\n"
    found = json.loads(done(["neff", "check", str(small), "--json"], capsys))
    assert found == {"file": str(small), "target": "trn2", "errors": 0, "warnings": 0, "findings": []}


def test_check_of_the_real_file(capsys: Captured) -> None:
    found = json.loads(done(["neff", "check", str(real_file()), "--json"], capsys))
    assert (found["target"], found["errors"]) == ("cayman", 0)
    assert [each["rule"] for each in found["findings"]] == ["header.hash"]


def test_check_of_a_broken_file_exits_with_1(tmp_path: Path, capsys: Captured) -> None:
    from npuviz.cli.main import main

    neff = small_neff()
    neff = with_members(neff, with_json(neff, "sg00/PE.json", "dma.0.desc.to_off", 1000))
    path = tmp_path / "bad.neff"
    write_neff(neff, path)
    assert main(["neff", "check", str(path)]) == 1
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "sg00/PE.json, dma[0] (id 1).desc.to: bytes 1000 to 1127 are not inside variable y" in captured.out


@pytest.mark.parametrize("action", ["unpack", "check"])
@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "expected a NEFF header of 1024 bytes, found a file of 0 bytes"),
        (bytes(2000), "header_size: expected 1024, found 0"),
        (file_of_tar(b"", data_size=1 << 40), "data_size: expected at most"),
        (file_of_tar(tar_of(("../up", b"1"))), "'../up', a path with"),
        (file_of_tar(tar_of(("/abs", b"1"))), "'/abs', an absolute path"),
        (file_of_tar(tar_of(("a", b""), ("a", b""))), "'a' twice"),
    ],
)
def test_bad_files_are_one_line(
    action: str, content: bytes, text: str, tmp_path: Path, capsys: Captured
) -> None:
    path = tmp_path / "bad.neff"
    path.write_bytes(content)
    arguments = ["neff", action, str(path)] + (["-o", str(tmp_path / "out")] if action == "unpack" else [])
    assert text in refused(arguments, capsys)
    assert names(tmp_path) == ["bad.neff"]


def test_a_bomb_is_refused_by_the_limit(tmp_path: Path, capsys: Captured) -> None:
    from npuviz.formats.neff.header import header_bytes
    from npuviz.formats.neff.model import NeffHeader

    packed = bomb(32 << 20)
    path = tmp_path / "bomb.neff"
    path.write_bytes(header_bytes(NeffHeader(data_size=len(packed))) + packed)
    text = refused(["neff", "unpack", str(path), "-o", str(tmp_path / "out"), "--set", "limit=1MiB"], capsys)
    assert "expected at most 1 MiB of content, found more" in text
    assert names(tmp_path) == ["bomb.neff"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["unpack", "FILE"], "unpack: say with -o where to"),
        (["check", "FILE", "-o", "x"], "check writes nothing"),
        (["check", "FILE", "--plain"], "--plain: only for pack"),
        (["check", "FILE", "--set", "limit=much"], "expected bytes"),
        (["check", "FILE", "--set", "depth=1"], "the only setting is limit"),
        (["check", "nowhere.neff"], "no such file"),
        (["melt", "FILE"], "'melt' is not one of"),
    ],
)
def test_wrong_use_is_one_line(arguments: list[str], text: str, small: Path, capsys: Captured) -> None:
    changed = [str(small) if each == "FILE" else each for each in arguments]
    assert text in refused(["neff", *changed], capsys)
