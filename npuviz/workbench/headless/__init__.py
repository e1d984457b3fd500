"""What npuviz does without a window: run, compile, map, export, tell about files, take NEFFs apart."""
