"""Tensors: making them, and seeing what is in them without moving them."""
