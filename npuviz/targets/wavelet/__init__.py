"""Wavelet fabric: CSL programs on a grid of processing elements with routers (WSE-2, WSE-3)."""
