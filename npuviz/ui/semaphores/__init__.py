"""The semaphores panel: what they count, and who waits for what."""
