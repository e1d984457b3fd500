"""Tests of the RK3588 compiler."""
