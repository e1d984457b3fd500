"""What makes a model shorter or plainer before it is compiled: folding, function bodies, loops written out."""
