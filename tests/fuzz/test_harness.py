"""The harness sees what it is for: leaks, hangs with the interpreter's lock, crashes, too much memory."""

import io
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from tests.fuzz import explore, family
from tests.fuzz.families import wafer
from tests.fuzz.mutations import change_bytes, change_json, change_text
from tests.fuzz.replay import replay
from tests.fuzz.shrink import shrink

TOYS = "tests.fuzz.toys"
WORDS = {
    "good": "taken",
    "bad": "error",
    "two lines": "leak",
    "escape": "cancelled",
    "leak": "leak",
    "bug": "leak",
    "hang": "hang",
    "sleep": "hang",
    "spin": "hang",
    "crash": "crash",
    "memory": "leak",
    "better": "taken",
}


def test_every_kind_of_fault_is_told_and_the_rest_goes_on(tmp_path: Path) -> None:
    inputs: list[tuple[str, Path]] = []
    for word in WORDS:
        path = tmp_path / f"{word}.txt"
        path.write_text(word)
        inputs.append(("faulty", path))
    found = replay(inputs, seconds=0.5, package=TOYS)
    assert {path.stem: kind for path, (kind, _) in found.items()} == WORDS


def test_what_is_found_is_kept_small_once_and_shown_in_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "faulty").mkdir()
    (tmp_path / "faulty" / "first.txt").write_text("crash")
    words = (
        f"explore --package {TOYS} --corpus {tmp_path} --inputs 100 --workers 1 --limit 5 --shrink 2 --seed 1"
    )
    monkeypatch.setattr("sys.argv", words.split())
    assert explore.main() == 1
    kept = sorted((tmp_path / "faulty").iterdir())
    names = [path.name.rpartition("-")[0] for path in kept]
    assert names == ["crash-SIGSEGV-unknown", "", "leak-KeyError"]
    assert [path.read_text() for path in kept] == ["crash", "crash", "leak"]
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("faulty"))
    inputs, share, taken, errors, cancelled, leaks, hangs, crashes = line.split()[1:9]
    assert (share, cancelled, hangs) == ("100.0%", "0", "0")
    assert int(crashes) >= 1
    assert int(inputs) >= 100
    assert int(taken) + int(errors) + int(leaks) + int(crashes) == int(inputs)


def test_signatures_tell_functions_of_npuviz_apart() -> None:
    from npuviz.base.names import natural_key, printable

    found: set[str] = set()
    for call in (natural_key, printable):
        with pytest.raises(TypeError) as caught:
            call(3)  # pyright: ignore[reportArgumentType]
        found.add(family.signature(caught.value))
    assert found == {"TypeError-names.natural_key", "TypeError-names.printable"}


def test_shrinking_keeps_what_shows_the_fault() -> None:
    data = b"line\n" * 40 + b"some bytes XY in a line\n" + b"line\n" * 40
    assert shrink(data, lambda part: b"XY" in part, 10) == b"XY"
    assert shrink(data, lambda part: part == data, 10) == data


@pytest.mark.parametrize(
    "change",
    [change_bytes, change_json, lambda data, rng: change_text(data.decode(), rng).encode(errors="replace")],
)
def test_changes_are_many_and_repeatable(change: object) -> None:
    from random import Random

    assert callable(change)
    data = b'{"name": "a", "sizes": [1, 2, {"deep": 3.5}], "text": "b c"}'
    found = [change(data, Random(seed)) for seed in range(400)]
    assert found == [change(data, Random(seed)) for seed in range(400)]
    assert len(set(found)) > 300


def test_every_family_has_seeds_that_are_read() -> None:
    for name in family.names():
        one = family.load(name)
        assert one.share > 0
        assert len(one.seeds()) > 0, name
        sizes = np.array([len(data) for data in one.seeds()])
        assert sizes.max() > 0


@pytest.mark.parametrize("kind", [[("a", "i4"), ("b", "f4")], "f8", "c16", "U1", "i8", "?"])
def test_arrays_of_any_type_are_changed(kind: Any) -> None:
    """A change of the header may make numbers of another type of them."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.zeros(3, kind))
    made = {wafer.changed_array(stream.getvalue(), Random(seed)) for seed in range(100)}
    assert len(made) > 5
