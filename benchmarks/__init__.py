"""What npuviz is measured by. Each module has `run() -> list[Row]`; `npuviz bench NAME` prints it."""

import os

os.environ.setdefault("NPUVIZ_KERNELS", "wait")  # what is measured is compiled
