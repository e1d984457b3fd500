"""Show the machine to people: description, listing, probes, contents and reports."""
