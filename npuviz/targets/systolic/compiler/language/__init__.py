"""Language models in iterations: who is served when, what fits, and each iteration's layers in true mode."""
