"""Pools: reductions of sliding windows."""
