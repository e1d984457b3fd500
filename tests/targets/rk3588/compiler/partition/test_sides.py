"""The partition of layers between NPU and Host, against all there are."""

from itertools import chain, combinations, product

import numpy as np
import pytest

from npuviz.targets.rk3588.compiler.partition.minimum_cut import Network
from npuviz.targets.rk3588.compiler.partition.sides import (
    Choice,
    Exchange,
    Question,
    best_sides,
    fewest_on_host,
)


def subsets(places: list[int]) -> list[frozenset[int]]:
    """All there are."""
    return [frozenset(each) for each in chain(*(combinations(places, n) for n in range(len(places) + 1)))]


@pytest.mark.parametrize("seed", range(40))
def test_a_cut_is_the_cheapest_there_is(seed: int) -> None:
    numbers = np.random.default_rng(seed)
    count = int(numbers.integers(2, 8))
    arcs = [
        (start, end, int(numbers.integers(0, 9)))
        for start, end in product(range(count), repeat=2)
        if numbers.random() < 0.5
    ]
    network = Network()
    for _ in range(count - 2):
        network.node()
    for arc in arcs:
        network.arc(*arc)

    def cost(sinks: frozenset[int]) -> int:
        return sum(capacity for start, end, capacity in arcs if start not in sinks and end in sinks)

    best = min(cost(inner | {1}) for inner in subsets(list(range(2, count))))
    found = frozenset(network.sink_side())
    assert 1 in found
    assert 0 not in found
    assert cost(found) == best


def question_of(choices: list[Choice], exchanges: list[Exchange], change: int) -> Question:
    """Layers in one order."""
    return Question(choices, exchanges, change, lambda _: list(range(len(choices))))


@pytest.mark.parametrize("seed", range(60))
def test_in_one_order_the_partition_is_the_best_there_is(seed: int) -> None:
    numbers = np.random.default_rng(seed)
    count = int(numbers.integers(1, 9))
    choices, exchanges = [], []
    for place in range(count):
        only = numbers.random()
        npu, host = (int(each) for each in numbers.integers(1, 50, 2))
        choices.append(Choice(npu if only > 0.2 else None, host if only < 0.8 else None, bool(place % 2)))
        readers = {int(each) for each in numbers.integers(place + 1, count + 1, 2)}
        readers = {reader if reader < count else -1 for reader in readers}
        exchanges.append(Exchange(int(numbers.integers(0, 30)), place, tuple(sorted(readers))))
    exchanges.append(Exchange(int(numbers.integers(0, 30)), -1, (0,)))
    question = question_of(choices, exchanges, 40)

    def can_be(sides: frozenset[int]) -> bool:
        taken = [choice.host if place in sides else choice.npu for place, choice in enumerate(choices)]
        return None not in taken

    possible = [sides for sides in subsets(list(range(count))) if can_be(sides)]
    assert question.cycles(best_sides(question)) == min(question.cycles(sides) for sides in possible)


def test_a_run_on_the_host_is_weighed_as_a_whole() -> None:
    """None of three layers gains what the way costs; all together do."""
    layers = [Choice(30, 10) for _ in range(3)]
    held = Choice(5, None)
    found = best_sides(question_of([held, *layers, held], [], 40))
    assert found == {1, 2, 3}
    assert best_sides(question_of([held, layers[0], held], [], 40)) == frozenset()


def test_a_conversion_is_paid_once() -> None:
    held, must = Choice(5, None), Choice(None, 5)
    question = question_of([held, must, must], [Exchange(7, 0, (1, 2))], 0)
    assert question.cycles(frozenset((1, 2))) == 5 + 10 + 7


def test_what_takes_as_long_on_both_sides_is_the_npus() -> None:
    assert best_sides(question_of([Choice(5, 5)], [], 0)) == frozenset()


def test_of_partitions_that_take_about_as_long_the_host_has_least_to_do() -> None:
    """Three layers that the NPU has, and one that takes long: two are near ties, one is not."""
    product, near, far = Choice(1000, None), Choice(130, 100), Choice(900, 200)
    together = question_of([product, near, product, far, product, near], [], 10)
    assert best_sides(together) == {1, 3, 5}
    assert fewest_on_host(together) == {3}
    little = question_of([product, product, near, product, product], [], 10)
    assert fewest_on_host(little) == best_sides(little) == {2}  # a Host that has little to do
    alone = question_of([product, far, product], [], 10)
    assert fewest_on_host(alone) == best_sides(alone) == {1}  # nothing takes about as long


@pytest.mark.parametrize("seed", range(20))
def test_what_leaves_the_host_alone_costs_little(seed: int) -> None:
    numbers = np.random.default_rng(seed)
    choices = [
        Choice(int(npu), int(host) if place % 4 else None)
        for place, (npu, host) in enumerate(numbers.integers(20, 60, (9, 2)))
    ]
    question = question_of(choices, [], 5)
    best, found = best_sides(question), fewest_on_host(question)
    assert question.cycles(found) <= 1.069 * question.cycles(best)
    assert question.host_cycles(found) <= question.host_cycles(best)
