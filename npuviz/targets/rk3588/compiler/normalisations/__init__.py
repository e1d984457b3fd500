"""Find normalisations and variances in a graph, however they are written out."""
