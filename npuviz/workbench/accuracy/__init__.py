"""How far the values of a run are from the reference, tensor by tensor."""
