"""What files of the RK3588 NPU hold: registers, task descriptors, tensor layouts; streams and containers have rooms."""
