from pathlib import Path

import pytest

from npuviz.base.errors import NpuvizError, UsageError
from npuviz.targets.wavelet.host import cslc
from npuviz.targets.wavelet.host.cslc import parse_arguments


def test_a_whole_command_line():
    words = "--arch wse2 ./layout.csl --fabric-dims=11,3 --fabric-offsets=4,1 --params=M:4,N:0x6 "
    words += "--params=K:1 --colors=x_in:1,y:3 -o=out_1 --memcpy --channels 2 --width-west-buf=0 --verbose"
    options = parse_arguments(words.split())
    assert options.file == Path("layout.csl")
    assert options.arch == "wse2"
    assert options.fabric == (11, 3)
    assert options.offset == (4, 1)
    assert options.params == {"M": 4, "N": 6, "K": 1}
    assert options.colors == {"x_in": 1, "y": 3}
    assert options.out == Path("out_1")
    assert options.has_memcpy
    assert options.is_verbose


def test_import_paths_come_from_the_environment_too(monkeypatch):
    monkeypatch.setenv("CSL_IMPORT_PATH", "/a:/b")
    options = parse_arguments(["x.csl", "--import-path", "/c"])
    assert options.import_paths == (Path("/c"), Path("/a"), Path("/b"))


def test_options_take_one_dash_or_two():
    options = parse_arguments(["x.csl", "-arch=wse3", "-fabric-dims", "20,20", "-memcpy", "-o", "out_1"])
    assert (options.arch, options.fabric, options.has_memcpy) == ("wse3", (20, 20), True)
    assert options.out == Path("out_1")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("", "one file"),
        ("a.csl b.csl", "one file"),
        ("a.csl --arch=wse1", "wse2 or wse3"),
        ("a.csl --channels=0", "1 to 16"),
        ("a.csl --channels=17", "1 to 16"),
        ("a.csl --fabric-dims=8", "two numbers"),
        ("a.csl --fabric-dims=8,x", "whole number"),
        ("a.csl --fabric-dims=99999999,1", "at most"),
        ("a.csl --params=M", "NAME:VALUE"),
        ("a.csl --params=M:-4", "whole number"),
        ("a.csl --params=M:" + "9" * 5000, "whole number"),
        ("a.csl --colour=1", "unknown option"),
        ("a.csl -colour=1", "unknown option"),
        ("a.csl -o", "expected a value"),
        ("a.csl --fp16-format=f8", "f16"),
    ],
)
def test_bad_command_lines(words, text):
    with pytest.raises(UsageError, match=text):
        parse_arguments(words.split())


def test_errors_are_one_line_and_code_2(tmp_path, capsys):
    assert cslc.run([str(tmp_path / "none.csl")]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "no such file" in captured.err


def test_what_the_runtime_library_takes_can_be_set(tmp_path, monkeypatch):
    """Programs for older SDKs fill a PE to the last byte."""
    pe = """var big = @zeros([46000]u8); fn main() void { big[3] = 1; } comptime { @export_symbol(main); }"""
    layout = (
        """layout { @set_rectangle(1, 1); @set_tile_code(0, 0, "pe.csl"); @export_name("main", fn()void); }"""
    )
    (tmp_path / "pe.csl").write_text(pe)
    (tmp_path / "layout.csl").write_text(layout)
    options = parse_arguments([str(tmp_path / "layout.csl")])
    with pytest.raises(NpuvizError, match="NPUVIZ_CSL_RESERVED sets"):
        cslc.compile_wafer(options)
    monkeypatch.setenv("NPUVIZ_CSL_RESERVED", "2048")
    symbol = next(one for one in cslc.compile_wafer(options).programs[0].symbols if one.name == "big")
    assert symbol.address == 2048
    monkeypatch.setenv("NPUVIZ_CSL_RESERVED", "60000")
    with pytest.raises(UsageError, match="a PE has 49152 bytes"):
        cslc.compile_wafer(options)
