"""The machine cycle by cycle: records, cores, SRAM, schedulers, traffic; Python calls `advance`."""
