"""The dialog "Run on": choose machine, preset, dimensions and settings for a model, and measure the costs."""
