"""A small real machine for tests: three units, two queues, two memories with contents."""
