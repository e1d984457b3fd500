"""Lower normalisations of rows and of channels, and softmax."""
