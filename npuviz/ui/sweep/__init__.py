"""The sweep panel: runs of a design space, and which of them none beats."""
