"""What people see of a NeuronCore: description, observation, contents, listing, floorplan."""
