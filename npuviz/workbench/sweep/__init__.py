"""Design-space sweeps: plan, runs, results, analysis and report."""
