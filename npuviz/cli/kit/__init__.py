"""Shared code of subcommands: options, progress on a terminal, and the check for a display."""
