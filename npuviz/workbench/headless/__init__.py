"""The work of the command line without a window: run, compile, map, export, describe files, unpack NEFFs."""
