"""Containers `.rknn` of version 6: read, written, and what their blobs say."""
