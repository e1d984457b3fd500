"""Files become programs: what npuviz can run is run, what it cannot is laid out as an estimate."""
