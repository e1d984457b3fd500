"""What every machine promises, checked for every registered target. Register in `registry`."""
