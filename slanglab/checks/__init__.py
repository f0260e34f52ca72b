"""Checking gradients in float32: directional differences with an error estimate, and what may be concluded from them. Pure numpy."""
