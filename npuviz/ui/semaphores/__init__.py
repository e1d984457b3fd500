"""The semaphores panel: values of semaphores, and the units that wait for them."""
