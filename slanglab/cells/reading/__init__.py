"""Reading the declarations of a Slang text, word by word and without recursion; `slanglab.cells.symbols` is the way in."""
