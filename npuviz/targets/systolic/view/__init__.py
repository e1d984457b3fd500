"""Views of the machine: description, floorplan, listing, probes, contents and reports."""
