"""Stand-in for the vendor's package: kernels run on the machine of npuviz."""

import logging as _logging

if not hasattr(_logging, "OFF"):
    _logging.OFF = _logging.CRITICAL + 10  # type: ignore[attr-defined]  # people's kernels take it for granted
