"""The queues panel: how full every queue is, and what waits in it."""
