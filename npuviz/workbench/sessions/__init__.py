"""What people keep of their work: bookmarks and notes, session files, how long things took."""
