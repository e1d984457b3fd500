"""Lower operators that reduce or search along axes."""
