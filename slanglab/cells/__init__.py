"""Cells: from the text of a cell to a compiled module, its names, its graph and its messages."""
