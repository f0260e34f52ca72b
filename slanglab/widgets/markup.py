"""Text as HTML: escaping, code in backticks, icons, and colours for Slang."""

from __future__ import annotations

import html
import re
import unicodedata

from slanglab.look import glyph, tokens
from slanglab.widgets.excerpt import visible

__all__ = ["code", "escape", "highlight", "icon", "inline"]

_LONGEST = 400  # characters of a name or a message

_SLANG = re.compile(
    r"""(?P<co>//.*|/\*.*?(?:\*/|$))
      | (?P<st>"(?:[^"\\]|\\.)*"?)
      | (?P<nu>\b\d[\w.]*)
      | (?P<me>\[\[?[A-Z]\w*(?:\([^()]*\))?\]?\]|^\s*\#\s*\w+.*|%%?slang\b.*)
      | (?P<k>\b(?:import|return|for|if|else|while|do|switch|case|default|break|continue|struct|interface|enum|extension|namespace
               |in|out|inout|no_diff|uniform|static|const|var|let|func|public|extern|export|typealias|true|false|this|This)\b)
      | (?P<ty>\b(?:(?:void|float|half|double|u?int|bool)(?:[1-4](?:x[1-4])?)?|u?int(?:8|16|32|64)_t|I?R?W?(?:Diff)?Tensor
               |DifferentialPair|I[A-Z]\w*)\b)
      | (?P<fn>\b[^\W\d]\w*(?=\())
    """,
    re.VERBOSE,
)


def escape(text: str) -> str:
    """Return text that is safe inside an element or a quoted attribute, every character of it visible, bounded in length."""
    shown = visible(text)
    if len(shown) > _LONGEST:
        shown = f"{shown[:_LONGEST]}… ({len(shown)} characters)"
    return _isolated(html.escape(shown, quote=True))


def _isolated(escaped: str) -> str:
    """Keep right-to-left words from moving what stands around them."""
    if escaped.isascii():
        return escaped
    return re.sub(r"[^\x00-\x7f]+(?:[ ]+[^\x00-\x7f]+)*", _isolate, escaped)


def _isolate(match: re.Match[str]) -> str:
    right_to_left = any(unicodedata.bidirectional(c) in ("R", "AL", "AN") for c in match[0])
    return f"<bdi>{match[0]}</bdi>" if right_to_left else match[0]


def attribute(text: str) -> str:
    """Return text for an attribute: escaped, without elements."""
    return html.escape(visible(text)[:_LONGEST], quote=True)


def inline(text: str) -> str:
    """Return a sentence as HTML; what stands in backticks becomes code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # an odd backtick is the text's own
        return escape(text)
    return "".join(code(part) if i % 2 else escape(part) for i, part in enumerate(parts))


def code(text: str) -> str:
    """Return a name or a piece of code as HTML."""
    return f"<code>{escape(text)}</code>"


def icon(name: str) -> str:
    """Return an icon that says nothing to a screen reader, and the character that stands for it where pictures are dropped."""
    path = tokens()["icons"][name]
    return (
        f'<svg class="i" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true"><path d="{path}"/></svg>'
        f'<span class="vh" aria-hidden="true">{glyph(name)} </span>'
    )


def highlight(shown: str) -> str:
    """Return a line of Slang, as `excerpt` shows it, with its words marked by class."""
    out, at = [], 0
    for match in _SLANG.finditer(shown):
        out.append(_isolated(html.escape(shown[at : match.start()])))
        out.append(f'<span class="{match.lastgroup}">{_isolated(html.escape(match[0]))}</span>')
        at = match.end()
    out.append(_isolated(html.escape(shown[at:])))
    return "".join(out)
