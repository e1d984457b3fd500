"""Evaluate what is known before the program runs: types, values, names, and the evaluator over them."""
