"""Build instruction streams: dependencies, order, and semaphores of the waits."""
