"""Read and write register command streams of the RK3588:
areas, single streams, text dumps, shadow registers."""
