"""BookSim-style network descriptions."""

from pathlib import Path

import pytest

from npuviz.base.errors import FormatError
from npuviz.formats.onnxim.booksim import DEFAULTS, parse_booksim_config, read_booksim_config

TEXT = """[config]
topology = fly   // one crossbar
k = 20;
n = 1
# a comment
internal_speedup = 2.0;
routing_function = dest_tag
"""


def test_names_values_and_comments() -> None:
    config = parse_booksim_config(TEXT, "net")
    assert config.warnings == ()
    assert config.values["topology"] == "fly"
    assert (config.values["k"], config.values["n"]) == (20, 1)
    assert config.values["internal_speedup"] == 2.0
    assert config.values["num_vcs"] == DEFAULTS["num_vcs"] == 16


def test_unknown_names_are_told_and_unused_ones_are_not() -> None:
    config = parse_booksim_config("k = 3\nsubnet = 1\ntraffic = uniform\ninjection_rate = {0.1,0.2}\n", "net")
    assert config.warnings == ("net, line 2: unknown name 'subnet' is ignored; close: subnets",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("k = seven", "net, line 1, k: expected a whole number, found 'seven'"),
        ("\nk 7", "net, line 2: expected name = value, found 'k 7'"),
        ("k = ", "net, line 1: expected name = value, found 'k ='"),
        ("k = 99999999999999999999", "net, line 1, k: expected a whole number"),
        ("internal_speedup = nan", "net, line 1, internal_speedup: expected a number, found 'nan'"),
        ("[config]\n", "net: expected lines of name = value, found none"),
    ],
)
def test_bad_lines_are_named(text: str, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_booksim_config(text, "net")
    assert str(caught.value).startswith(message)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="a readable file"):
        read_booksim_config(tmp_path / "absent.icnt")
    path = tmp_path / "binary.icnt"
    path.write_bytes(b"k = 3\n\xff\xfe")
    with pytest.raises(FormatError, match="byte 6: expected UTF-8 text"):
        read_booksim_config(path)
    path.write_bytes(b"x" * ((1 << 20) + 1))
    with pytest.raises(FormatError, match="at most"):
        read_booksim_config(path)


def test_every_cut_of_a_file_is_read_or_refused() -> None:
    for end in range(len(TEXT)):
        try:
            parse_booksim_config(TEXT[:end], "net")
        except FormatError as error:
            message = str(error)
        else:
            message = ""
        assert "\n" not in message
