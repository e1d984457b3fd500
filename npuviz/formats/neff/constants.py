"""Find the constants of a NEFF: the data that the runtime loads into `file` variables (reference 4.5)."""

import numpy as np

from npuviz.base.errors import FormatError
from npuviz.formats.neff.model import Payload, Subgraph, Variable


def constant_data(subgraph: Subgraph, variable: Variable) -> np.ndarray:
    """Return the bytes that the runtime loads into a `file` variable: uint8[n], read-only.

    Of a .npy file only the array is loaded, of any other all bytes; n may differ from `variable.size`,
    which `check_neff` reports. Raises FormatError when there is no such file or no such array.
    """
    where = f"subgraph {subgraph.name}, variable {variable.name}"
    content = subgraph.files.get(variable.file_name or "")
    if content is None:
        raise FormatError(
            where, field="file_name", expected="a file of the subgraph", found=repr(variable.file_name)[:100]
        )
    start = npy_data_offset(content, where) if (variable.file_name or "").endswith(".npy") else 0
    found = np.frombuffer(content, np.uint8)[start:]
    found.flags.writeable = False
    return found


def npy_data_offset(content: Payload, where: str) -> int:
    """Return where the array of a .npy file starts. Raises FormatError if it has no valid header."""
    head = bytes(content[:12])
    size_bytes = 2 if head[6:7] == b"\1" else 4
    if head[:6] != b"\x93NUMPY" or head[6:7] not in (b"\1", b"\2", b"\3") or len(head) < 12:
        raise FormatError(where, expected="a .npy header", found=head[:6].hex(" ") or "an empty file")
    start = 8 + size_bytes + int.from_bytes(head[8 : 8 + size_bytes], "little")
    if start > len(content):
        raise FormatError(where, expected=f"a .npy header of {start} bytes", found=f"{len(content)} bytes")
    return start
