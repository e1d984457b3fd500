"""How people see the machine: description, floorplan, listing, probes, contents and reports."""
