from npuviz.base.text_table import table_lines


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    rows = [("name", "cycles", ""), ("a", "1", "x"), ("longer", "1234567", "")]
    assert table_lines(rows, right=(1,), indent="  ") == [
        "  name     cycles",
        "  a             1  x",
        "  longer  1234567",
    ]


def test_no_rows_no_lines() -> None:
    assert table_lines([]) == []
