"""What a chip is made of beside its cores: DRAM devices and networks from their files, energy per event."""
