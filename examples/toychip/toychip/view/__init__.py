"""What people see: description, units, queues, probes, contents."""
