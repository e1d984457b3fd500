"""The machine in compiled code: the main loop over words of the state, and the rooms it stands on."""
