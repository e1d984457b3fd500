"""Records of the state, and the loop that moves it."""
