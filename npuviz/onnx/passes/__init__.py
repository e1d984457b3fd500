"""Passes that simplify a model before it is compiled: folding, inlining of functions, unrolling of loops."""
