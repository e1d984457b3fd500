"""Tests of the RK3588 NPU."""
