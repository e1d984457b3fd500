"""Normalisations of rows and of channels, and softmax."""
