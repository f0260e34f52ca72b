"""PyTorch: torch tensors in calls, in torch's autograd graph.

Nothing here is imported before a torch tensor reaches a call: torch is an optional dependency (`pip install slanglab[torch]`).
"""
