"""The program that the hooks of agents run. It imports nothing outside of the standard library, and starts fast."""
