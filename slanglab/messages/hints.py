"""What to do about a message: the line to write instead, where it can be known.

`hint` answers for the compiler's messages, `python_hint` (`hints_python.py`) for what Python says when a notebook was written
for another version of slangpy. Every replacement was compiled or run with slangpy 0.43.1. A hint is a sentence with `code` in
backticks; where nothing certain can be said there is none.
"""

from __future__ import annotations

import difflib
import re
import unicodedata

from slanglab.messages.hint_words import ATTRIBUTES, ELSEWHERE, INTRINSICS, LOOKALIKES, SLANGPY_NAMES
from slanglab.messages.hints_python import closest, python_hint
from slanglab.text.diagnostics import Diagnostic
from slanglab.text.outline import Outline

__all__ = ["closest", "hint", "python_hint"]


def hint(diagnostic: Diagnostic, outline: Outline | None = None, first_line: int = 1) -> str | None:
    """Return what to do about a message of the compiler, or None where that is not known.

    Parameters
    ----------
    diagnostic : Diagnostic
        With its source lines, from which a replacement is made.
    outline : Outline, optional
        The names that the cell declares, for "did you mean".
    first_line : int
        The number that the outline's line 1 has in the diagnostic: 2 for a cell whose first line is `%%slang`.
    """
    if diagnostic.generated:
        return None
    if found := _odd_character(diagnostic):
        return found
    if diagnostic.code == "E30015":
        return _undefined(diagnostic, outline, first_line - 1)
    if diagnostic.code == "E30027":
        return _member(diagnostic, outline)
    rule = _BY_CODE.get(diagnostic.code)
    return rule(diagnostic) if rule is not None else None


# ----- the text at the place -----


def _line(diagnostic: Diagnostic) -> str:
    return next((text for number, text in diagnostic.source if number == diagnostic.line), "")


def _token(diagnostic: Diagnostic) -> str:
    return _line(diagnostic)[diagnostic.column - 1 : diagnostic.end_column - 1]


def _quoted(diagnostic: Diagnostic) -> list[str]:
    return re.findall(r"['`]([^'`]*)['`]", diagnostic.text or diagnostic.title)


def _code(text: str) -> str:
    """Put a piece of the user's text into backticks, where it can stand there."""
    flat = " ".join(text.split())
    return f"`{flat}`" if "`" not in flat and len(flat) <= 160 else ""


def _arguments(line: str, at: int) -> tuple[list[str], int] | None:
    """Read the arguments of the call whose name ends at offset `at`; return them and the offset behind the `)`."""
    opened = re.compile(r"\s*\(").match(line, at)
    if opened is None:
        return None
    depth, arguments, start = 0, [], opened.end()
    for i in range(opened.end(), len(line)):
        if line[i] in "([{":
            depth += 1
        elif line[i] in ")]}":
            if depth == 0:
                arguments.append(line[start:i].strip())
                return [a for a in arguments if a], i + 1
            depth -= 1
        elif line[i] == "," and depth == 0:
            arguments.append(line[start:i].strip())
            start = i + 1
    return None


def _odd_character(diagnostic: Diagnostic) -> str | None:
    line = _line(diagnostic)
    first, last = diagnostic.column - 1, max(diagnostic.end_column - 1, diagnostic.column)
    for at, character in enumerate(line[first:last], first):
        instead = LOOKALIKES.get(character)
        if (
            instead is None
            and unicodedata.category(character) in ("Cf", "Zs", "Cc")
            and character not in " \t"
        ):
            instead = "nothing"
        if instead is not None:
            name = {"\f": "form feed", "\v": "vertical tab"}.get(
                character, unicodedata.name(character, "control character").lower()
            )
            write = "delete it" if instead == "nothing" else f"write {instead}"
            return f"column {at + 1} is a {name} (U+{ord(character):04X}), which Slang does not know: {write}"
    return None


# ----- undefined names -----


def _in_reach(diagnostic: Diagnostic, outline: Outline | None, shift: int) -> dict[str, tuple[str, int]]:
    """Return the names that could be meant at the place, with kind and line: parameters of other functions are not."""
    if outline is None:
        return {}
    found = {struct.name: ("struct", struct.line) for struct in outline.structs}
    found.update({variable.name: ("variable", variable.line) for variable in outline.globals})
    for function in outline.functions:
        found[function.name] = ("function", function.line)
    at = diagnostic.line - shift
    for function in outline.functions:
        if function.line <= at <= max(function.end_line, function.line):
            found.update(
                {p.name: ("parameter", p.line or function.line) for p in function.parameters if p.name}
            )
    return {name: (kind, line + shift) for name, (kind, line) in found.items()}


def _undefined(diagnostic: Diagnostic, outline: Outline | None, shift: int) -> str | None:
    name = next(iter(_quoted(diagnostic)), "") or _token(diagnostic)
    if not name:
        return None
    if name in SLANGPY_NAMES:
        return "`" + name + "` comes with slangpy: write `import slangpy;` above your functions"
    if name == "print":
        return "write `import sgl.device.print;` above your functions"
    if name in ("PI", "M_PI", "pi"):
        return f"Slang has no constant for it: write `static const float {name} = 3.14159265;`"
    if name in ("np", "math", "torch"):
        return "functions of Slang stand alone: write `sin(x)`, not `" + name + ".sin(x)`"
    known = _in_reach(diagnostic, outline, shift)
    if not known:
        nearby = (
            word for _, text in diagnostic.source for word in re.findall(r"[^\W\d]\w*", text.split("//")[0])
        )
        known = {word: ("", 0) for word in nearby if word != name}
    if name in ELSEWHERE and name.lower() not in {word.lower() for word in known}:
        return f"Slang has no `{name}`: write `{ELSEWHERE[name]}`"
    candidates = [c for c in (closest(name, known), closest(name, INTRINSICS)) if c is not None]
    if not candidates:
        return None
    found = max(
        candidates, key=lambda c: (c.lower() == name.lower(), _likeness(name, c))
    )  # the cell's own name wins a tie
    kind, line = known.get(found, ("", 0))
    where = f" (line {line})" if line else ""
    return f"did you mean {f'the {kind} ' if kind else ''}`{found}`{where}?"


def _likeness(a: str, b: str) -> float:
    return difflib.SequenceMatcher(None, a, b).ratio()


def _attribute(diagnostic: Diagnostic) -> str | None:
    found = closest(next(iter(_quoted(diagnostic)), ""), ATTRIBUTES)
    return f"did you mean `[{found}]`? As it stands it has no effect" if found else None


def _no_module(diagnostic: Diagnostic) -> str | None:
    name = re.sub(r"\.slang$", "", next(iter(_quoted(diagnostic)), ""))
    if not re.fullmatch(r"[^\W\d][\w.]*", name):
        return "no file of that name lies next to the notebook"
    near = closest(name, ("slangpy", "sgl"))
    also = f", or did you mean `import {near};`?" if near else ""
    return f"no cell, file or library is called `{name}`: run the cell that starts with `%%slang {name}` first{also}"


# ----- members: slangpy's tensors had other methods -----


def _member(diagnostic: Diagnostic, outline: Outline | None) -> str | None:
    quoted = _quoted(diagnostic)
    if len(quoted) < 2:
        return None
    member, owner = quoted[0], quoted[1]
    if tensor := re.fullmatch(r"(I?)(R?W?)(Diff)?Tensor<(.*)>", owner):
        return _tensor_member(diagnostic, member, owner, tensor)
    if vector := re.fullmatch(r"vector<\w+,\s*([234])>", owner):
        return "it has the components " + ", ".join(f"`.{c}`" for c in "xyzw"[: int(vector[1])])
    fields: list[str] = []
    for struct in outline.structs if outline is not None else ():
        if struct.name == owner:
            fields += [f.name for f in (*struct.fields, *struct.properties)]
            fields += [m.name for m in struct.methods]
    found = closest(member, fields)
    return f"did you mean `.{found}`?" if found else None


def _tensor_member(diagnostic: Diagnostic, member: str, owner: str, tensor: re.Match[str]) -> str | None:
    interface, access, diff, inner = tensor.groups()
    line = _line(diagnostic)
    call = _arguments(line, diagnostic.end_column - 1)
    before = re.search(r"[\w.]+(?:\[[^\]]*\])?(?=\s*\.\s*$)", line[: diagnostic.column - 1])
    if call is None or before is None:
        return None
    target = before[0]
    # An index given as `{i, j}` is two arguments now.
    arguments = [re.sub(r"^(?:u?int\d?)?\s*\{(.*)\}$", r"\1", a).strip() for a in call[0]]
    writable = f"{interface}{'RW' if not access and member == 'add_grad' else access or 'W'}{diff or ''}Tensor<{inner}>"
    if member in ("getv", "get") and arguments:
        if access == "W":
            return f"`{owner}` is only written: declare `{target}` as `{interface}R{access}{diff or ''}Tensor<{inner}>`"
        return "write " + _code(f"{target}[{', '.join(arguments)}]")
    if member in ("setv", "set") and len(arguments) > 1:
        instead = _code(f"{target}[{', '.join(arguments[:-1])}] = {arguments[-1]};")
        if not access:
            return f"`{owner}` is only read: declare `{target}` as `{writable}` and write {instead}"
        return f"write {instead}"
    if member == "load_grad" and arguments and diff:
        index = ", ".join(arguments)
        if not access:
            return (
                f"no gradient arrives at `{owner}`, which is only read: declare `{target}` as `{writable}`, and write "
                + _code(
                    f"{target}._read_grad_each({index})" if interface else f"{target}._grad_in.load({index})"
                )
            )
        return "write " + _code(
            f"{target}._read_grad_each({index})" if interface else f"{target}._grad_in.load({index})"
        )
    if member == "add_grad" and len(arguments) > 1 and diff:
        index, value = ", ".join(arguments[:-1]), arguments[-1]
        if access == "W":
            both = f"{interface}R{access}DiffTensor<{inner}>"
            return f"`{owner}` takes no gradient, being only written: declare `{target}` as `{both}`"
        return "write " + _code(
            f"{target}._accumulate_grad_each({value}, {index})"
            if interface
            else f"{target}._grad_out.add({index}, {value})"
        )
    return None


# ----- derivatives -----


def _loop(diagnostic: Diagnostic) -> str | None:
    line = _line(diagnostic)
    at, word = diagnostic.column - 1, _token(diagnostic)
    header = line[at:].rstrip()
    if word != "do" and (call := _arguments(line, at + len(word))) is not None:
        # The body only stays where it is short: what changes is in front.
        rest = line[call[1] :].rstrip()
        header = line[at : call[1]] + (rest if len(rest) <= 40 and rest.strip() != "{" else "")
    rounds = re.search(r"<=?\s*(\d+)\s*;", header)
    n = rounds[1] if rounds else "N"
    written = _code(f"[MaxIters({n})] {header}") or f"`[MaxIters({n})]` before the loop"
    bound = "" if rounds else ", with `N` a number that the rounds never exceed"
    return f"write {written}{bound}"


def _call_without_derivative(diagnostic: Diagnostic) -> str | None:
    name = next(iter(_quoted(diagnostic)), "")
    if not name:
        return None
    return f"write `[Differentiable]` before `{name}`, or `no_diff {name}(…)` where no gradient shall pass through the call"


def _plain_struct(diagnostic: Diagnostic) -> str | None:
    return "declare the struct as `struct Name : IDifferentiable`, or its gradients stay zero"


# ----- syntax and types -----


# Slang ends a struct at the line's end; another declaration on the same line needs the semicolon that C asks for.
_STRUCT_AND_MORE = re.compile(r"\bstruct\s+(\w+)[^{};]*\{[^{}]*\}\s*[^\W\d]\w*")


def _close_struct(name: str) -> str:
    return f"write `;` after the `}}` of `struct {name}`, or begin a new line there"


def _expected(diagnostic: Diagnostic) -> str | None:
    line = _line(diagnostic)
    text = diagnostic.text or diagnostic.title
    before = line[: diagnostic.column - 1]
    if struct := _STRUCT_AND_MORE.search(before):
        # What follows on that line was misread, so nothing else about it is worth saying.
        first = struct.end() >= len(before.rstrip())
        return _close_struct(struct[1]) if first and "expected ';'" in text else None
    if "end of file" in text and "expected '}'" in text:
        return "a `{` is not closed: add the missing `}`"
    if re.search(r"\*\*\s*\S*$", before):
        return "Slang has no `**`: write `pow(x, 2.0)` or `x * x`"
    if (word := _token(diagnostic)) in ("and", "or", "not"):
        return f"Slang has no `{word}`: write `{ {'and': '&&', 'or': '||', 'not': '!'}[word] }`"
    if re.search(r"^\s*def\s+\w+\s*\(", before) or any(
        re.match(r"\s*def\s+\w+\s*\(", t) for _, t in diagnostic.source
    ):
        return "this is Python: a Slang function is written `float f(float x) { return x; }`"
    wanted = re.search(r", expected '([;)\]}])'", text)
    if wanted and before.strip():
        following = f" before `{word}`" if word.strip() else ""
        return f"write `{wanted[1]}`{following}"
    return None


def _keyword_as_name(diagnostic: Diagnostic) -> str | None:
    struct = re.search(r"\bstruct\s+(\w+)[^{};]*\{[^{}]*\}\s*$", _line(diagnostic)[: diagnostic.column - 1])
    return _close_struct(struct[1]) if struct else None


def _mismatch(diagnostic: Diagnostic) -> str | None:
    vectors = re.fullmatch(
        r".*'vector<(\w+),(\d)>', got 'vector<\1,(\d)>'", diagnostic.text or diagnostic.title
    )
    if vectors and int(vectors[2]) < int(vectors[3]):
        return f"take the first components: `.{'xyzw'[: int(vectors[2])]}`"
    return None


def _conversion(diagnostic: Diagnostic) -> str | None:
    types = _quoted(diagnostic)
    return f"write the conversion where it is meant: `{types[1]}(…)`" if len(types) == 2 else None


def _uninitialized(diagnostic: Diagnostic) -> str | None:
    name = next(iter(_quoted(diagnostic)), "")
    return f"give `{name}` a value where it is declared" if name else None


def _no_return(diagnostic: Diagnostic) -> str | None:
    return "let every way through the function end with `return …;`: without it the first call fails"


def _unresolved(diagnostic: Diagnostic) -> str | None:
    name = next(iter(_quoted(diagnostic)), "")
    if re.search(rf"\bextern\b[^;(]*\b{re.escape(name)}\b\s*;", _line(diagnostic)):
        return f"give it a value: `.constants({{'{name}': 7}})` on the function before the call"
    return None


def _recursion(diagnostic: Diagnostic) -> str | None:
    return "a kernel cannot call itself: write a loop, with `[MaxIters(N)]` where it is differentiated"


def _twice(diagnostic: Diagnostic) -> str | None:
    return "delete one of the two, or give it another name"


_BY_CODE = {
    "E00001": _no_module,
    "E20001": _expected,
    "E20002": _expected,
    "E20103": _keyword_as_name,
    "E30019": _mismatch,
    "E30081": _conversion,
    "E30201": _twice,
    "E30510": _loop,
    "E31000": _attribute,
    "E31159": _plain_struct,
    "E41009": _no_return,
    "E41010": _no_return,
    "E41016": _uninitialized,
    "E41022": _call_without_derivative,
    "E45001": _unresolved,
    "E55201": _recursion,
}
