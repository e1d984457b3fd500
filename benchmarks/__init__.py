"""Benchmarks of npuviz. Each module has `run() -> list[Row]`, whose rows `npuviz bench NAME` prints."""

import os

os.environ.setdefault("NPUVIZ_KERNELS", "wait")  # measure compiled kernels only
