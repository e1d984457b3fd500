"""The hazards panel: errors of the program that the hardware does not check."""
