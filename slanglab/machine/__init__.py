"""The machine: which drivers and libraries are there, what is missing, and how to get it."""
