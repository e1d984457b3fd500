"""What makes a model shorter or plainer before it is compiled: folding, functions, loops written out."""
