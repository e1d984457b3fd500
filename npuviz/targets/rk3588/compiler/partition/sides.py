"""Weigh runs of layers on the Host as wholes, and find the partition with the least modelled time.

In a fixed order the least is a minimum cut: each layer costs its time on the side where it is, a tensor its
conversion once if it changes sides, and a layer of the Host after one of the NPU the way there and back. The
order then follows the sides (`turns_of`), and the sides the order, until neither gains.

Inputs and outputs are converted on the Host, so that a run there which begins or ends a graph costs no call
of its own. It is counted all the same if the first or last operator is one that the NPU has and could run:
the model is compiled for the NPU, and the loss is less than a call.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from npuviz.targets.rk3588.compiler.partition.minimum_cut import ENDLESS, Network

MOST_ROUNDS = 8
"""Most rounds of order and cut; each is better than the last, and most graphs need two."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What a layer takes on both sides, in cycles; None where it cannot run.

    is_composed  whether the NPU has no such operator, and composes it of others
    """

    npu: int | None
    host: int | None
    is_composed: bool = False


@dataclass(frozen=True, slots=True)
class Exchange:
    """A tensor that may change sides.

    cycles   of its conversion
    maker    place of the layer that makes it (-1: the Host is given it)
    readers  places of the layers that read it (-1: the Host gives it out)
    is_npus  whether the NPU converts it
    """

    cycles: int
    maker: int
    readers: tuple[int, ...]
    is_npus: bool = False


@dataclass(frozen=True, slots=True)
class Times:
    """Cycles of a partition, and how many of them are the Host's."""

    total: int = 0
    host: int = 0

    @property
    def share(self) -> float:
        """The Host's share."""
        return self.host / max(1, self.total)


@dataclass(frozen=True)
class Question:
    """All that a partition's time depends on.

    change  cycles from the NPU to the Host and back
    call    how many of them are the Host's
    ends    what a run takes in any partition: inputs, outputs, conversions where nothing can be chosen
    order   places of layers in an order in which they can run, for the places that are on the Host
    """

    choices: Sequence[Choice]
    exchanges: Sequence[Exchange]
    change: int
    order: Callable[[frozenset[int]], list[int]]
    call: int = 0
    ends: Times = Times()

    def cycles(self, on_host: frozenset[int]) -> int:
        """Return the time of a partition, in its own order."""
        return self.times(on_host).total

    def with_dearer_host(self, weight: float) -> "Question":
        """Return the same question with a Host that takes longer for all that it does."""
        choices = [
            choice if choice.host is None else replace(choice, host=int(choice.host * weight))
            for choice in self.choices
        ]
        exchanges = [
            each if each.is_npus else replace(each, cycles=int(each.cycles * weight))
            for each in self.exchanges
        ]
        change = self.change + int(self.call * (weight - 1))
        return replace(self, choices=choices, exchanges=exchanges, change=change)

    def times(self, on_host: frozenset[int]) -> Times:
        """Return the times of a partition, in its own order."""
        total = self.ends.total
        host = self.ends.host
        for place, choice in enumerate(self.choices):
            taken = choice.host if place in on_host else choice.npu
            total += taken or 0
            host += (taken or 0) * (place in on_host)
        for exchange in self.exchanges:
            sides = {reader < 0 or reader in on_host for reader in exchange.readers}
            made = exchange.maker < 0 or exchange.maker in on_host
            if (not made) in sides:
                total += exchange.cycles
                host += exchange.cycles * (not exchange.is_npus)
        changes = self._changes(on_host)
        return Times(total + self.change * changes, host + self.call * changes)

    def _changes(self, on_host: frozenset[int]) -> int:
        order = self.order(on_host)
        ends = [self.choices[order[end]] for end in (0, -1) if order]
        is_free = [end.is_composed or end.npu is None for end in ends] or [False, False]
        before = [is_free[0], *(place in on_host for place in order[:-1])]
        changes = sum(place in on_host and not earlier for place, earlier in zip(order, before, strict=True))
        return changes - (is_free[1] and order[-1] in on_host)


def best_sides(question: Question) -> frozenset[int]:
    """Return the places of the layers that the Host runs.

    Order and cut find only partitions near their start, so that there are three starts: with all layers on
    the NPU that it can run, without those that it composes of others, and with all on the Host that it may
    run.
    """
    choices = list(enumerate(question.choices))
    begins = (
        frozenset(place for place, choice in choices if choice.npu is None),
        frozenset(
            place for place, choice in choices if choice.host is not None
            if choice.npu is None or choice.is_composed
        ),
        frozenset(place for place, choice in choices if choice.host is not None),
    )  # fmt: skip
    return min((_improved(question, begin) for begin in dict.fromkeys(begins)), key=question.cycles)


def _improved(question: Question, on_host: frozenset[int]) -> frozenset[int]:
    """Cut a partition again in its own order for as long as that gains; return the best."""
    best = question.cycles(on_host)
    for _ in range(MOST_ROUNDS):
        found = _cut(question, question.order(on_host))
        cycles = question.cycles(found)
        if cycles >= best:
            break
        on_host, best = found, cycles
    return on_host


def _cut(question: Question, order: Sequence[int]) -> frozenset[int]:
    """Return the best partition in a fixed order."""
    network = Network()
    nodes = [_node(network, choice) for choice in question.choices]
    for exchange in question.exchanges:
        _add_exchange(network, nodes, exchange)
    for before, place in pairwise(order):
        network.arc(nodes[before], nodes[place], question.change)
    if order and not question.choices[order[0]].is_composed:
        network.arc(0, nodes[order[0]], question.change)
    if order and question.choices[order[-1]].is_composed:
        network.arc(nodes[order[-1]], 1, question.change)
    host = network.sink_side()
    return frozenset(place for place, node in enumerate(nodes) if node in host)


def _node(network: Network, choice: Choice) -> int:
    """Return a layer's node: source and sink stand for layers that only one side can run."""
    if choice.npu is None:
        return 1
    if choice.host is None:
        return 0
    node = network.node()
    # The time that both sides take anyway is in no arc.
    network.arc(0, node, choice.host - min(choice.host, choice.npu))
    network.arc(node, 1, choice.npu - min(choice.host, choice.npu))
    return node


def _add_exchange(network: Network, nodes: Sequence[int], exchange: Exchange) -> None:
    """Add the arcs of a conversion, paid once for any number of readers on the other side."""
    maker = nodes[exchange.maker] if exchange.maker >= 0 else 1
    readers = {nodes[reader] if reader >= 0 else 1 for reader in exchange.readers} - {maker}
    if len(readers) == 1:
        (reader,) = readers
        network.arc(maker, reader, exchange.cycles)
        network.arc(reader, maker, exchange.cycles)
        return
    if maker != 1 and readers:
        to_host = network.node() if 1 not in readers else 1
        network.arc(maker, to_host, exchange.cycles)
        for reader in readers if to_host != 1 else ():
            network.arc(to_host, reader, ENDLESS)
    if maker != 0 and readers:
        to_npu = network.node() if 0 not in readers else 0
        network.arc(to_npu, maker, exchange.cycles)
        for reader in readers if to_npu != 0 else ():
            network.arc(reader, to_npu, ENDLESS)
