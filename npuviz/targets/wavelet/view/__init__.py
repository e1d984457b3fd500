"""What people see of a wafer: description, observation, listing, fabric, frames, values of variables."""
