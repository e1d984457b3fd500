"""The boxes that share bytes with another, against looking at all of them."""

from hypothesis import given
from hypothesis import strategies as st

from npuviz.targets.neuroncore.compiler.patterns.box_index import BoxIndex
from npuviz.targets.neuroncore.compiler.patterns.tile import Box

_EDGES = st.one_of(st.integers(0, 300), st.integers(0, 40_000), st.integers(0, 1 << 30))


def _box(edges: tuple[int, int, int, int]) -> Box:
    rows, pieces = sorted(edges[:2]), sorted(edges[2:])
    return rows[0], rows[1] + 1, pieces[0], pieces[1] + 1


_BOXES = st.tuples(_EDGES, _EDGES, _EDGES, _EDGES).map(_box)


@given(
    st.lists(st.tuples(st.integers(0, 30), _BOXES, st.booleans()), max_size=60),
    st.lists(_BOXES, min_size=1, max_size=8),
)
def test_the_same_boxes_meet_as_when_all_are_looked_at(
    changes: list[tuple[int, Box, bool]], asked: list[Box]
) -> None:
    index: BoxIndex[int] = BoxIndex()
    known: dict[int, Box] = {}
    for key, box, is_added in changes:
        if is_added:
            index.add(key, box)
            known[key] = box
        else:
            index.remove(key)
            known.pop(key, None)
    for p0, p1, b0, b1 in asked:
        expected = {
            key for key, (q0, q1, c0, c1) in known.items() if q0 < p1 and p0 < q1 and c0 < b1 and b0 < c1
        }
        found = index.meeting((p0, p1, b0, b1))
        assert len(found) == len(set(found))
        assert set(found) == expected
