"""The queues panel: fill level and entries of every queue."""
