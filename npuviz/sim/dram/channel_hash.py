"""Make tables from which kernels look up the DRAM channel of a request, by a hash of its address.

Ref: systolic.md section 7, the polynomial-interleaving hash known from GPGPU-Sim ("IPOLY").
"""

import numpy as np

from npuviz.base.errors import TargetError

# Output bit -> the address bits (of address // request size) that are added modulo 2.
_HASH_BITS: dict[int, tuple[tuple[int, ...], ...]] = {
    16: (
        (0, 3, 4, 6, 8, 9, 10, 11),
        (0, 1, 3, 5, 6, 7, 8, 12),
        (1, 2, 4, 6, 7, 8, 9),
        (2, 3, 5, 7, 8, 9, 10),
    ),
    32: (
        (0, 3, 5, 6, 9, 10, 11, 12, 13),
        (1, 4, 6, 7, 10, 11, 12, 13, 14),
        (0, 2, 3, 6, 7, 8, 9, 10, 14),
        (1, 3, 4, 7, 8, 9, 10, 11),
        (2, 4, 5, 8, 9, 10, 11, 12),
    ),
    64: (
        (0, 5, 6, 10, 12, 15, 16, 17, 18),
        (0, 1, 5, 7, 10, 11, 12, 13, 15),
        (1, 2, 6, 8, 11, 12, 13, 14, 16),
        (2, 3, 7, 9, 12, 13, 14, 15, 17),
        (3, 4, 8, 10, 13, 14, 15, 16, 18),
        (4, 5, 9, 11, 14, 15, 16, 17),
    ),
}
_CHUNK_BITS = 7


def channel_hash_tables(num_channels: int) -> tuple[np.ndarray, int]:
    """Return the tables for `num_channels` channels and a modulo: ((3, 128) int64, modulo).

    channel = table[0][bits 0..6] ^ table[1][bits 7..13] ^ table[2][bits 14..20] of the request
    number, then modulo `modulo` unless that is 0. Raises TargetError for counts without a hash.
    """
    size = 16 if num_channels <= 16 else num_channels
    if num_channels < 1 or size not in _HASH_BITS:
        raise TargetError(
            f"{num_channels} DRAM channels: there is a channel hash for 1 to 16, 32 and 64; "
            "set dram_channels to one of them"
        )
    tables = np.zeros((3, 1 << _CHUNK_BITS), dtype=np.int64)
    for out_bit, in_bits in enumerate(_HASH_BITS[size]):
        for bit in in_bits:
            values = np.arange(1 << _CHUNK_BITS) >> (bit % _CHUNK_BITS) & 1
            tables[bit // _CHUNK_BITS] ^= values << out_bit
    if num_channels & (num_channels - 1) == 0:
        # The low bits of an exclusive or depend on the low bits alone, so that the tables can be reduced in
        # advance.
        return tables & (num_channels - 1), 0
    return tables, num_channels
