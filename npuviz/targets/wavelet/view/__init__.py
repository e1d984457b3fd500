"""Show a wafer to people: description, observation, listing, fabric, frames, values of variables."""
