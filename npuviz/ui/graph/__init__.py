"""The graph panel: draws the model's operators, with their progress in the run."""
