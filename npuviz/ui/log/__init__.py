"""The log panel: notes of the program, reasons of stops, failures, durations of work."""
