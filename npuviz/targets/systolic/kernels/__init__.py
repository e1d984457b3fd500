"""The machine cycle by cycle: records, cores, SRAM, schedulers and traffic; `advance` is what Python calls."""
