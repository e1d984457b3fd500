"""Read and write containers `.rknn` of version 6, and interpret their blobs."""
