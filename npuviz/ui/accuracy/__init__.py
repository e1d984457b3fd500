"""How far the values of a run are from the reference: a table, the depth of the model, a histogram."""
