"""Schedule the actors of a wafer: the time wheel, seats, wakes with faults and the log, stop rows."""
