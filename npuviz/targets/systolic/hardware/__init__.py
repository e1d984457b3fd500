"""Hardware beside the cores: DRAM devices and networks from their files, and energy per event."""
