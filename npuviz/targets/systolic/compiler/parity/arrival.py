"""The order in which models of one list file join the scheduler."""

from collections.abc import Sequence


def heap_order(times: Sequence[int]) -> list[int]:
    """Return indices by rising time; equal times come in the order in which ONNXim's binary heap returns
    them.

    Models wait in a heap that is filled in list order and emptied from its top; in a heap, equal items do
    not keep their order from four on. The steps are those of the C++ library's `push_heap` and `pop_heap`:
    the hole at the top sinks along the earlier child (the second of two equal ones), then the last item
    rises from there.
    """
    heap: list[int] = []
    for index in range(len(times)):
        heap.append(index)
        _rise(heap, times, len(heap) - 1, index)
    order: list[int] = []
    while heap:
        order.append(heap[0])
        last = heap.pop()
        if heap:
            _sink(heap, times, last)
    return order


def _rise(heap: list[int], times: Sequence[int], hole: int, item: int) -> None:
    while hole > 0 and times[heap[(hole - 1) // 2]] > times[item]:
        heap[hole] = heap[(hole - 1) // 2]
        hole = (hole - 1) // 2
    heap[hole] = item


def _sink(heap: list[int], times: Sequence[int], item: int) -> None:
    hole, count = 0, len(heap)
    while 2 * hole + 2 < count:
        child = 2 * hole + 2
        if times[heap[child]] > times[heap[child - 1]]:
            child -= 1
        heap[hole] = heap[child]
        hole = child
    if 2 * hole + 2 == count:
        heap[hole] = heap[count - 1]
        hole = count - 1
    _rise(heap, times, hole, item)
