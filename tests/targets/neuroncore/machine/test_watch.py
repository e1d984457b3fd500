"""Which bytes of a memory an access touches, for stop rows."""

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from npuviz.base.kernels.twins import plain_twin
from npuviz.targets.neuroncore.kernels.updates import touches


@given(
    st.integers(0, 4), st.integers(0, 6), st.integers(0, 24), st.integers(0, 12), st.integers(0, 30),
    st.tuples(st.integers(0, 200), st.integers(0, 12)),
)  # fmt: skip
def test_touches_agrees_with_its_partitions_one_by_one(partition, partitions, pitch, low, size, watched):
    """A pitch of zero is a memory without partitions; bytes of neighbours may overlap."""
    access = SimpleNamespace(
        partition=partition, partitions=partitions, pitch=pitch, low=low, high=low + size
    )
    begin, end = watched[0], watched[0] + watched[1] + 1
    bases = [(partition + n) * pitch for n in range(partitions)]
    expected = any(base + low < end and base + low + size > begin for base in bases)
    assert plain_twin(touches)(access, begin, end) == expected
