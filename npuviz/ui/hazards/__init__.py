"""The hazards panel: what the hardware leaves to the programmer and went wrong."""
