"""Keeps the user's work: bookmarks and notes, session files, durations of openings."""
