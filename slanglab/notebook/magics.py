"""`%%slang` and `%slang`."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand

from slanglab.cells.report import CellReport
from slanglab.cells.session import Request
from slanglab.cells.versions import CompileError
from slanglab.errors import SlangLabError
from slanglab.notebook import display, engines
from slanglab.notebook.binding import bind
from slanglab.text.hazards import reads_files
from slanglab.text.source import valid_name

if TYPE_CHECKING:
    from slanglab.lab import Lab

__all__ = ["SlangMagics", "parse_line"]

_MACRO = re.compile(r"[A-Za-z_]\w*(\([\w, ]*\))?(=[^\n]*)?")


class _Parser(argparse.ArgumentParser):
    """An argument parser that raises `UsageError` instead of leaving the process."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"%%slang: {message}; `%%slang?` lists the options")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise UsageError(message or "")


def _parser() -> _Parser:
    parser = _Parser(prog="%%slang", add_help=False)
    parser.add_argument("name", nargs="?", help="what the module is bound to, and what other cells import")
    parser.add_argument("-n", "--name", dest="name_option", metavar="NAME", help="the same, as an option")
    parser.add_argument(
        "-I",
        "--include",
        action="append",
        default=[],
        metavar="FOLDER",
        help="search FOLDER first for imports and includes; it must lie in the notebook's folder, or in one that "
        "`%%slang config include` opened; may be repeated",
    )
    parser.add_argument(
        "-D",
        "--define",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="define a preprocessor macro; may be repeated",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="show errors and warnings only")
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="say why the cell was compiled again, or why not"
    )
    parser.add_argument("--no-bind", action="store_true", help="compile, and bind no Python name")
    parser.add_argument(
        "--bounds",
        action="store_true",
        help="compare every index of a tensor with its shape; a call with one outside fails",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="compare the gradients of every backward call with difference quotients, not only the first",
    )
    parser.add_argument(
        "--torch",
        action="store_true",
        help="compile a cell in the style of slang-torch ([TorchEntryPoint], [AutoPyBindCUDA]) into functions for PyTorch on CUDA",
    )
    parser.add_argument("--line", type=int, default=1, help=argparse.SUPPRESS)
    return parser


_PARSER = _parser()


def parse_line(line: str) -> argparse.Namespace:
    """Read the options behind `%%slang`.

    Raises
    ------
    UsageError
        For options that do not exist, quotes that do not close, and names that are none.
    """
    lexer = shlex.shlex(line.strip(), posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.commenters = "#"
    try:
        words = list(lexer)
    except ValueError as error:
        raise UsageError(f"%%slang: {str(error).lower()} in {line.strip()!r}") from None
    options = _PARSER.parse_args(words)
    if options.name is not None and options.name_option is not None:
        raise UsageError(f"%%slang: two names given, {options.name!r} and {options.name_option!r}")
    options.name = options.name if options.name is not None else options.name_option
    if options.name is not None and (problem := valid_name(options.name)) is not None:
        column = line.find(options.name) + len("%%slang ") + 1
        raise UsageError(f"%%slang: {problem} (column {column})")
    for macro in options.define:
        if not _MACRO.fullmatch(macro):
            raise UsageError(f"%%slang: {macro!r} is no macro; write -D NAME or -D NAME=VALUE")
        if reads_files(macro):
            raise UsageError(
                f"%%slang: {macro!r} would make an import that cannot be followed; write the import itself"
            )
    return options


@magics_class
class SlangMagics(Magics):
    """The magics; one instance per loaded extension."""

    def __init__(self, shell: Any, lab: Lab) -> None:
        super().__init__(shell)
        self._shell = shell
        self._lab = lab

    @no_var_expand
    @line_cell_magic
    def slang(self, line: str, cell: str | None = None) -> None:
        """Compile a cell of Slang, or ask and tell SlangLab something.

        %%slang [NAME] [options] compiles the cell. With NAME the module is bound to NAME, and other cells may `import NAME;`.
        Without, each function and struct that the cell declares is bound to its own name.

          -I, --include FOLDER     search FOLDER first for imports and includes (inside the folders that cells may read)
          -D, --define NAME=VALUE  define a preprocessor macro; may be repeated
          -q, --quiet              show errors and warnings only
          -v, --verbose            say why the cell was compiled again, or why not
          --no-bind                compile, and bind no Python name
          --bounds                 compare every index of a tensor with its shape (`t[i]`, load, store, add): a call with one outside fails
                                   and names the line, the index and the shape; slower, forward and backward, in this cell's own text
          --check                  compare the gradients of every backward call with difference quotients, not only of the first one

          --torch                  a cell in the style of slang-torch ([TorchEntryPoint], [AutoPyBindCUDA], TensorView): functions for
                                   PyTorch on CUDA; pairs X_fwd, X_bwd are also one function X with its gradient

        %slang                     device, backend, caches and modules
        %slang device              the current device; `%slang device list` shows all, `%slang device NAME` switches
        %slang modules             the cells: names, versions, what imports what
        %slang code NAME           the CUDA and C++ of a --torch cell
        %slang config [KEY [VALUE]]  the settings, kept between sessions
        %slang reset               close the device and open it again; tensors are lost, cells are compiled again
        """
        if cell is None:
            engines.command(self._lab, line)
        else:
            self._run_cell(line, cell)

    def _run_cell(self, line: str, cell: str) -> None:
        options = parse_line(line)
        if not cell.strip():
            raise UsageError(
                "%%slang: the cell is empty; write Slang below the first line, for example\n"
                "  [Differentiable] float square(float x) { return x * x; }"
            )
        request = Request(
            cell,
            options.name,
            label=self._label(),
            identity=self._identity(),
            first_line=options.line + 1,
            macros=tuple(options.define),
            include=tuple(Path(f).expanduser() for f in options.include),
            bounds=options.bounds,
            check=options.check,
        )
        try:
            ran = self._lab.run_torch(request) if options.torch else engines.run(self._lab, request)
        except CompileError as error:
            if error.report is not None:
                display.show(error.report)
                error.shown = True
            raise
        report = ran.report
        if not options.no_bind:
            bound = bind(self._shell.user_ns, ran, options.name)
            report = replace(report, bound=bound.names, left_alone=bound.left_alone)
        self._show(report, options)

    def _show(self, report: CellReport, options: argparse.Namespace) -> None:
        wanted = "off" if options.quiet else self._lab.settings["report"]
        needed = bool(report.diagnostics or report.left_alone or report.gone_stale or report.state == "stale")
        if wanted == "off" and not needed:
            return
        short = wanted == "short" and not needed and not options.verbose
        display.show(report, short=short, verbose=options.verbose)

    def _label(self) -> str:
        # Not `execution_count`: IPython 9.16 and newer count it up before the cell runs, older ones after.
        return f"In[{self._shell.displayhook.prompt_count}]"

    def _identity(self) -> str:
        """Return the notebook's own id of the running cell; empty where the front end sends none."""
        get_parent = getattr(self._shell, "get_parent", None)
        parent = get_parent() if get_parent is not None else None
        metadata = parent.get("metadata", {}) if isinstance(parent, dict) else {}
        found = metadata.get("cellId", "") if isinstance(metadata, dict) else ""
        return found if isinstance(found, str) else ""


def lift_comments(lines: Sequence[str]) -> list[str]:
    """Move comments and blank lines that stand above `%%slang` below it, so that IPython sees the magic first.

    IPython knows a cell magic only in the first line. The lines become Slang comments, and `--line` tells the magic where the cell
    began, so that messages keep the numbers of the editor.
    """
    at = next((i for i, line in enumerate(lines) if line.strip() and not line.lstrip().startswith("#")), None)
    if at is None or at == 0 or not re.match(r"%%slang\b", lines[at]):
        return list(lines)
    magic = lines[at].rstrip("\r\n")
    comment = magic.find(" #")
    words, tail = (magic, "") if comment < 0 else (magic[:comment], magic[comment:])
    return [f"{words} --line {at + 1}{tail}\n", *lines[at + 1 :]]


def wrap_errors(error: SlangLabError) -> bool:
    """Show an error of SlangLab in the notebook; the presenter of `SlangLabError`."""
    return display.show_error(error)
