"""Reading the declarations of a Slang text, word by word and without recursion; `slanglab.text.symbols` is the way in."""
