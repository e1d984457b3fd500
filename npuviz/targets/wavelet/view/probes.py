"""Reads the probes of a wafer machine by name; none can be written."""

from typing import Any

import numpy as np

from npuviz.targets.wavelet.view.observe import Observer


class ProbeTable:
    """Probe name -> how to read it."""

    def __init__(self, observer: Observer) -> None:
        self._readers = observer.readers()

    def read(self, probe: str) -> Any:
        """Value of a probe. Raises KeyError for an unknown one."""
        return self._readers[probe]()

    def write(self, probe: str, value: Any) -> None:
        """Raises KeyError for an unknown probe, ValueError for every other."""
        if probe not in self._readers:
            raise KeyError(probe)
        raise ValueError(f"probe {probe} cannot be written ({np.asarray(value).shape} value)")
