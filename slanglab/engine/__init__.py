"""The engine: one way from a Python call to the device, forward and backward."""
