"""Define the words `host`, to which commands are only appended; their kinds are numbered as in wafer.py.

The rows of commands come first, then the symbols they name, their data and their results.
"""

from npuviz.sim.parts.record_kernels import Record

HOST_COPY_IN = 0
HOST_COPY_OUT = 1
HOST_STREAM_IN = 2
HOST_STREAM_OUT = 3
HOST_LAUNCH = 4

FIRST_COMMAND = 8
"""Word of command 0."""

COMMAND = Record(
    "host command",
    kind="a HOST_ number",
    x="region of PEs: first column",
    y="first row",
    width="columns",
    height="rows",
    words="of each PE",
    data="place of its data in host words, in 32-bit words; results alike",
    is_16bit="1: 16-bit words",
    nonblock="1: the host goes on at once",
    color="of a stream",
    symbols="word of a SYMBOL per program",
    args="number of arguments of a launch",
    is_port="1: a stream of a port, which shares its way with no other",
    at_least=16,
)

SYMBOL = Record(
    "what a command names, in one program",
    address="in the memory, -1 none",
    is_pointer="1: the address of the data stands there",
    function="to launch, -1 none",
)
