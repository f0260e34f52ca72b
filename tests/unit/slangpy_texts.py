"""What slangpy 0.43.1 says, word for word; collected by making each mistake on software Vulkan."""

import json
import re
from pathlib import Path

from slanglab.text.diagnostics import SourceText, parse

_ALL = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
COMPILES = _ALL["compiles"]
CALLS = _ALL["calls"]


def rename(name):
    """As the compiler room does: the version goes."""
    return re.sub(r"\b(\w+?)__v\d+\b", r"\1", name)


def messages(case, first_line=1, cell="In[5]"):
    """Return the diagnostics of a source that did not compile, or that brought warnings."""
    data = COMPILES[case]
    text = "\n".join([data["text"], *data["log"]])
    source = SourceText(cell, tuple(data["source"].split("\n")), first_line)
    return parse(text, lambda file: source if file == f"{case}__v3" else None, rename)
