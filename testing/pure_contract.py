"""import-linter's rule for pure code: a module with "Pure" in its docstring knows no I/O.

It imports none of `IO_MODULES` itself, and none of our modules that import one of `CLIENTS`. Sockets and
child processes are passed in.
"""

import ast
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from importlinter import Contract, ContractCheck, output

# "Pure but for ..." names an exception; the rule does not apply.
SAYS_SO = re.compile(r"\bPure\b(?! but for)")

# Modules with I/O, a clock, randomness or settings of their own.
IO_MODULES = {
    *("fastapi", "http", "logging", "os", "random", "secrets", "signal", "ssl"),
    *("tempfile", "threading", "time", "urllib"),
    *("steelyard_agent.settings", "steelyard_reporter.settings", "steelyard_controller.settings"),
}

# Imports that make one of our modules I/O.
CLIENTS = {
    *("asyncio", "multiprocessing", "psutil", "pymemcache", "redis", "select", "socket", "subprocess"),
    "uvicorn",
}

# Harmless parts of modules with I/O: a generator's type, URL parsing, names of statuses.
HARMLESS = {("random", "Random"), ("urllib.parse", None), ("http", "HTTPStatus")}


class PureContract(Contract):
    """Holds every module to the word `Pure` in its docstring."""

    def check(self, graph: Any, verbose: bool) -> ContractCheck:  # noqa: ANN401, ARG002 (grimp has no types)
        """Return whether every such module is pure, and the imports that break it."""
        roots: list[str] = self.session_options["root_packages"]
        ours = {name for name in graph.modules if name.split(".")[0] in roots}
        imported = {name: graph.find_modules_directly_imported_by(name) for name in ours}
        outside = {name for name in ours if imported[name] & CLIENTS}
        forbidden = IO_MODULES | CLIENTS | outside
        broken = []
        for name in sorted(ours):
            tree = _tree(name)
            if SAYS_SO.search(ast.get_docstring(tree) or ""):
                impure = (imported[name] & forbidden) - _harmless(tree)
                broken += [(name, other) for other in sorted(impure)]
        return ContractCheck(kept=not broken, metadata={"broken": broken})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print each forbidden import of a pure module."""
        for name, other in check.metadata["broken"]:
            output.print_error(f"{name} says that it is pure, and imports {other}")


def _tree(module: str) -> ast.Module:
    root, _, rest = module.partition(".")
    spec = find_spec(root)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(module)
    path = Path(spec.submodule_search_locations[0]) / rest.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def _harmless(tree: ast.Module) -> set[str]:
    """Return the modules with only harmless imported parts."""
    froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    plain = {
        name.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for name in node.names
    }
    harmful = plain | {
        str(node.module).split(".")[0]
        for node in froms
        for name in node.names
        if not {(node.module, name.name), (node.module, None)} & HARMLESS
    }
    return {str(node.module).split(".")[0] for node in froms} - harmful
