"""What subcommands share: options, progress on a terminal, and whether there is a display."""
