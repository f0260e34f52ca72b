"""Cells in the style of slang-torch: functions for PyTorch on CUDA, compiled by Slang, nvcc and slangtorch.

    a cell   text -> cells.resolve (imports) -> compiler (Slang: CUDA and C++) -> slangtorch and nvcc -> module proxy + report
    a call   tensors -> staging (device, type, strides) -> slangtorch's function, in torch's autograd graph where it is a pair

Texts, signatures and messages need neither PyTorch nor CUDA; `staging`, `autograd` and `calling` import PyTorch, and are imported by the
first call.
"""
