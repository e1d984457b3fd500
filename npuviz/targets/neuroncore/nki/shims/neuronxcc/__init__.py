"""Stand-in for the vendor's package: kernels run on the machine of npuviz."""

import logging

if not hasattr(logging, "OFF"):
    logging.OFF = logging.CRITICAL + 10  # type: ignore[attr-defined]  # people's kernels take it for granted
