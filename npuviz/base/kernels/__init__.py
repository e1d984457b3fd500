"""Run kernels that Python calls: uncompiled at first, compiled as soon as a helper process has compiled
them."""
