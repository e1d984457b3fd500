import pytest

from npuviz.base.errors import FormatError
from npuviz.formats.binary import read_file, read_head, read_text


def test_reads_up_to_the_limit(tmp_path):
    file = tmp_path / "a"
    file.write_bytes(b"12345")
    assert read_file(file, 5) == b"12345"
    assert read_head(file, 2) == b"12"
    with pytest.raises(FormatError, match="at most 4 B"):
        read_file(file, 4)


@pytest.mark.parametrize("name", ["missing", "folder", "nul\0byte"])
def test_what_is_no_file_is_a_format_error(tmp_path, name):
    (tmp_path / "folder").mkdir()
    for read in (lambda path: read_file(path, 10), lambda path: read_text(path, 10), read_head):
        with pytest.raises(FormatError) as caught:
            read(tmp_path / name)
        assert "\n" not in str(caught.value)


def test_an_endless_file_is_refused(tmp_path):
    fifo = tmp_path / "fifo"
    import os

    os.mkfifo(fifo)
    with pytest.raises(FormatError, match="not a regular file"):
        read_file(fifo, 10)


def test_text_drops_the_byte_order_mark_and_names_the_bad_byte(tmp_path):
    file = tmp_path / "a"
    file.write_bytes(b"\xef\xbb\xbfhi")
    assert read_text(file, 10) == "hi"
    file.write_bytes(b"ab\xff")
    with pytest.raises(FormatError) as caught:
        read_text(file, 10)
    assert caught.value.offset == 2


def test_a_limit_costs_no_memory(tmp_path):
    file = tmp_path / "a"
    file.write_bytes(b"12345")
    assert read_file(file, 1 << 60) == b"12345"
