"""Kinds of host commands, for kernels; the numbers of tables.py, which a test compares."""

HOST_COPY_IN = 0
HOST_COPY_OUT = 1
HOST_STREAM_IN = 2
HOST_STREAM_OUT = 3
HOST_LAUNCH = 4
HOST_PORT_IN = 5
HOST_PORT_OUT = 6
