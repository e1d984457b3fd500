"""Lower elementwise operators: formulas on tiles, casts, and the loop over broadcast shapes."""
