"""The page of real models is read back: rows of other machines stay, and cycles are compared."""

from benchmarks.real_model_page import comparison, figures_of_page

PAGE = """\
| model | kind |
| --- | --- |
| one | OCR | fp32 | 1,337 | 20 | rk3588 | 1.0 | 20 | 1,000 | 2 % | right | right | 1 |
| one | OCR | fp32 | 1,337 | 20 | systolic * | 1.0 | 20 | - | - | - | - | - |

| one | rk3588 | 12% | Softmax 8%: it is faster there; Pad 2%: no lowering |

- **one** on systolic: exit 2: it does not fit: 3 bytes
"""


def test_rows_and_reasons() -> None:
    found = figures_of_page(PAGE)
    assert {key: each["cycles"] for key, each in found.items()} == {
        "one, rk3588": 1000,
        "one, systolic": None,
    }
    assert found["one, rk3588"]["host"] == 0.12
    assert found["one, rk3588"]["host_text"] == "Softmax 8%: it is faster there; Pad 2%: no lowering"
    assert found["one, systolic"]["reasons"] == ["exit 2: it does not fit: 3 bytes"]


def test_only_what_was_measured_anew_is_compared() -> None:
    before = figures_of_page(PAGE)
    assert comparison(before, before) == []
    (line,) = comparison(before, {"one, rk3588": {"cycles": 1500}})
    assert line.split()[-3:] == ["1,000", "1,500", "1.500"]
