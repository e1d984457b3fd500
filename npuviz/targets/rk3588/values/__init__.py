"""What tasks compute: DDR after any prefix of the log, one file per unit of the core."""
