"""Build the widgets' JavaScript into slanglab/static when the package is built, and ship it in wheel and sdist.

SLANGLAB_JS=auto   (default) build where npm is there and it makes sense: a wheel or sdist from a git tree, or no bundle yet
SLANGLAB_JS=skip   never build; take the bundle that is there, or none
SLANGLAB_JS=force  always build

An sdist carries the bundle, so that installing from it needs no node. An editable install without node works too: widgets
then show their static pictures, and `make js` builds the bundle later.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MODES = ("auto", "skip", "force")


def must_build(mode: str, *, version: str, bundle: bool, sdist: bool, npm: bool, sources: bool) -> bool:
    """Say whether npm is to be run.

    Parameters
    ----------
    mode : str
        Value of SLANGLAB_JS.
    version : str
        What hatchling builds: "standard" or "editable".
    bundle, sdist, npm, sources : bool
        Whether slanglab/static holds a bundle, the tree is an unpacked sdist, npm is there, js/package.json is there.
    """
    if mode == "skip" or not sources:
        return False
    if mode == "force":
        return True
    return npm and not (sdist and bundle) and (not bundle or version == "standard")


class JavaScriptHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        static = root / "slanglab" / "static"
        mode = os.environ.get("SLANGLAB_JS", "auto")
        if mode not in MODES:
            raise SystemExit(f"slanglab: SLANGLAB_JS={mode}; it takes {', '.join(MODES)}")
        npm = shutil.which("npm")
        bundle = any(static.glob("*.js"))
        sources = (root / "js" / "package.json").is_file()
        sdist = (root / "PKG-INFO").is_file()
        if must_build(
            mode, version=version, bundle=bundle, sdist=sdist, npm=npm is not None, sources=sources
        ):
            if npm is None:
                raise SystemExit("slanglab: SLANGLAB_JS=force, and there is no npm; install node 20 or newer")
            self._npm(npm, root / "js")
            bundle = any(static.glob("*.js"))
            if not bundle:
                raise SystemExit("slanglab: `npm run build` wrote no JavaScript into slanglab/static")
        static.mkdir(exist_ok=True)
        if not bundle:
            if version != "editable" and mode != "skip" and sources:
                raise SystemExit(
                    "slanglab: slanglab/static holds no JavaScript and there is no npm to build it; "
                    "install node 20 or newer, or install a published wheel or sdist"
                )
            self.app.display_warning(
                "slanglab: no JavaScript bundle; widgets will show their static pictures only"
            )

    def _npm(self, npm: str, folder: Path) -> None:
        install = "ci" if (folder / "package-lock.json").is_file() else "install"
        for command in ([npm, install, "--no-audit", "--no-fund"], [npm, "run", "build"]):
            done = subprocess.run(command, cwd=folder, check=False)  # noqa: S603  (npm as found on the path)
            if done.returncode:
                raise SystemExit(
                    f"slanglab: `{' '.join(command[1:])}` in js/ ended with status {done.returncode}"
                )
