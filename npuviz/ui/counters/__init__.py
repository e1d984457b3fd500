"""The counters panel: value now, lowest, mean and highest of each counter of a run."""
