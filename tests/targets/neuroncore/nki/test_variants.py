"""How variants of an operator are compared with published times."""

import json

import pytest

from benchmarks.nki_variants import (
    DMA_PEAK,
    Variant,
    base_of,
    bound_text,
    bounds_of,
    clear_pairs,
    measured,
    noise_of,
    repeats,
    summary,
    tied,
    with_bases,
)


def test_pairs_that_are_clearly_apart_are_counted_by_their_order_here() -> None:
    found = [Variant("a", 1.0, 5.0), Variant("b", 1.04, 4.0), Variant("c", 2.0, 6.0), Variant("d", 3.0, 1.0)]
    # a and b are near; of a-c, a-d, b-c, b-d and c-d two are in order here
    assert clear_pairs(found) == (6, 1, 5, 2)
    assert "6 pairs, 1 within 5 %; 5 more than 10 % apart, 2 of them in order here" in summary(
        [Variant("x", 4, 4), *found]
    )


def test_a_published_time_is_doubled_where_it_is_too_short_for_the_documented_work() -> None:
    work = {"PE": 0.1, "Scl": 0.6, "Vec": 0.2}
    assert base_of(1.0, {"work": work}, {}) == 0
    assert base_of(0.5, {"work": work}, {}) == 2
    moved = {"read": DMA_PEAK / 1e3, "written": DMA_PEAK / 1e3, "work": work}  # 2 ms of DMA
    assert (base_of(1.5, moved, {}), base_of(2.1, moved, {})) == (2, 0)
    assert base_of(1.0, {"work": work}, {"Scl": 0.3, "Vec": 0.1}) == 2  # 0.4 ms of 0.8
    assert base_of(1.0, {"work": work}, {"Scl": 0.6, "Vec": 0.2}) == 1
    assert (base_of(3.0, moved, {"DMA": 0.7}), base_of(3.0, moved, {"DMA": 0.5})) == (1, 2)
    assert base_of(1.0, {"work": work}, {"PE": 0.99}) == 0  # it may be slow
    assert base_of(1.0, {"work": work}, {"PE": 0.05}) == 2
    assert Variant("a", 0.5, 1.0, base=2).measured == 1.0


def test_a_time_of_which_nothing_is_known_is_doubled_as_most_others_are() -> None:
    found = [Variant("a", 1, 1, base=2), Variant("b", 1, 1, base=1), Variant("c", 1, 1, base=0)]
    assert [each.base for each in with_bases(found)] == [2, 1, 2]
    assert [each.base for each in with_bases(found[1:])] == [1, 1]


def test_shares_of_engines_are_those_that_the_table_says(tmp_path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "a.py").touch()
    table = tmp_path / "benchmark.csv"
    table.write_text(
        "candidate,passed,latency_ms,notes\n"
        "runs/a.py,true,2,DMA=9% Scl 34->25% Vec=1.5%\nruns/a.py (again),true,4,Scl=40%\nruns/a.py,false,9,\n"
    )
    assert measured(table) == ({"runs/a.py": 3.0}, {"runs/a.py": {"DMA": 0.09, "Scl": 0.25, "Vec": 0.015}})


def test_repeats_are_rows_of_one_file_and_lists_of_fractions(tmp_path) -> None:
    (tmp_path / "benchmark.csv").write_text(
        "candidate,passed,latency_ms\n"
        "runs/a.py,true,2.0\nruns/a.py (again),true,2.1\nruns/b.py,true,3.0\nruns/b.py,false,9.0\n"
        "runs/b.py,true,N/A\nruns/c.py,true,\n"
    )
    record = {"seeds": [0, 21], "runs_ms": [1.0, 1.1], "gate": {"A": [4.0, 4.1, 4.2]}, "one": [5.0]}
    (tmp_path / "candidates.jsonl").write_text(f"{json.dumps(record)}\n\n{json.dumps({'x': [1.0, 1.1]})}\n")
    assert repeats(tmp_path) == [[1.0, 1.1], [2.0, 2.1], [4.0, 4.1, 4.2]]


def test_noise_is_pooled_over_kernels_and_does_not_count_their_differences() -> None:
    assert noise_of([]) == 0
    assert noise_of([[1.0, 1.0], [50.0, 50.0]]) == 0
    assert noise_of([[1.0, 1.02], [50.0, 51.0]]) == pytest.approx(0.014, rel=0.01)


def test_two_rounds_of_measuring_agree_as_far_as_noise_lets_them() -> None:
    times = [1.0, 1.001, 2.0, 4.0]
    assert bounds_of(times, 0.0) == (1.0, 0.0)
    agreement, limit = bounds_of(times, 0.01)
    assert 0.85 < agreement < 0.95  # two of four ranks change places in about half of the rounds
    assert limit == pytest.approx(0.0283, rel=0.01)


def test_times_within_noise_of_the_shortest_of_their_group_are_ties() -> None:
    assert tied([1.02, 1.0, 1.05, 1.031], 0.03) == [1.0, 1.0, 1.031, 1.031]
    found = [Variant("a", 1.0, 2.0), Variant("b", 1.001, 1.0), Variant("c", 2.0, 3.0)]
    text = bound_text(found, [[1.0, 1.01]])
    assert "2 repeats of 1 kernels: noise 0.70%" in text
    assert "2 ranks, Spearman 0.87, at most 0.87" in text  # which of the tied two is first does not matter
    assert "3 ranks, Spearman 0.50, at most 1.00" in bound_text(found, [])
