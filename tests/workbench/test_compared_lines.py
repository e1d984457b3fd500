"""Lines of two versions of a program: the same, moved, changed, and those that only one has."""

from collections.abc import Sequence

from npuviz.program.source import Entry, Place, SourceFile
from npuviz.workbench.comparing.lines import paired_lines, renamed


class Listing:
    """A listing of which only the texts count."""

    def __init__(self, name: str, text: str) -> None:
        self.sources: Sequence[SourceFile] = (SourceFile(name, text),)
        self.entries: Sequence[Entry] = ()
        self.names = [f"{name}:{number}" for number, _ in enumerate(text.splitlines(), start=1)]

    def place_of(self, index: int) -> Place | None:
        return Place(0, index + 1)

    def ranges_of_line(self, file: int, line: int) -> list[tuple[int, int]]:
        return [(line - 1, line)]

    def lines_with_code(self, file: int) -> Sequence[int]:
        return ()


BEFORE = """def kernel(x, y):
    for i in range(4):
        part = load(x, i)
        fixed = load(y, 0)
        acc = matmul(part, fixed)
        store(acc, i)
"""
AFTER = """def kernel(x, y):
    fixed = load(y, 0)
    for i in range(4):
        part = load(x, i)
        acc = matmul(part, fixed[0])
        send_it_to_the_other_core()
        store(acc, i)
"""


def pairs_of(a: Listing, b: Listing) -> dict[str, str]:
    return paired_lines(a, b, (a.names, b.names))


def test_lines_are_paired_by_their_text() -> None:
    found = pairs_of(Listing("k.py", BEFORE), Listing("fast.py", AFTER))
    wanted = {1: 1, 2: 4, 3: 2, 4: 3, 5: 5, 7: 6}
    assert found == {f"fast.py:{there}": f"k.py:{here}" for there, here in wanted.items()}


def test_lines_that_do_not_count_are_left_out() -> None:
    a, b = Listing("k.py", BEFORE), Listing("fast.py", AFTER)
    assert paired_lines(a, b, (["k.py:6"], b.names)) == {"fast.py:7": "k.py:6"}


def test_programs_without_texts_have_no_pairs() -> None:
    assert paired_lines(object(), Listing("k.py", AFTER), ([], [])) == {}


def test_another_line_of_the_same_name_is_told_apart() -> None:
    a, b = Listing("k.py", BEFORE), Listing("k.py", AFTER)
    found = renamed({"k.py:6": 5, "k.py:7": 3, "(idle)": 1}, pairs_of(a, b), [*a.names, "(idle)"])
    assert found == {"k.py:6 (B)": 5, "k.py:6": 3, "(idle)": 1}
