"""What a handler's source leads to: which of our modules, which packages of others, which services of AWS.

Imports are read from the source and not seen at run time, since many of them are made late, by the first request that needs them. A module
that is only named in a text (`workers.api.app.GROUPS`) counts as imported; what only a type checker imports doesn't.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Final

from shared.aws import Aws

ROOT: Final = Path(__file__).resolve().parents[2]
OURS: Final = ("shared", "workers")
_SERVICES: Final = frozenset(field.name for field in fields(Aws)) - {"elsewhere"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Sources:
    """`modules` are ours, with the packages around them; `others` the dotted names that they import of others; `services` those of AWS."""

    modules: frozenset[str]
    others: frozenset[str]
    services: frozenset[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Read:
    """What one module imports, and the texts in it."""

    imports: frozenset[str]
    texts: frozenset[str]


def sources_of(module: str, *, without: Collection[str] = ()) -> Sources:
    """All that a module leads to, but for the modules `without` and what only those lead to. Raises ModuleNotFoundError."""
    if path_of(module) is None:
        raise ModuleNotFoundError(f"there is no module {module}")
    found: set[str] = set()
    others: set[str] = set()
    texts: set[str] = set()
    ahead = [module]
    while ahead:
        name = ahead.pop()
        if name in found or name in without:
            continue
        found.add(name)
        ahead += [parent for parent in _parents(name) if parent not in found]
        read = _read(name)
        if name != Aws.__module__:  # which names all of them
            texts |= read.texts
        for imported in read.imports | {text for text in read.texts if text.startswith(OURS) and path_of(text) is not None}:
            if imported.partition(".")[0] not in OURS:
                others.add(imported)
            elif (ours := _module_in(imported)) is not None:
                ahead.append(ours)
    foreign = frozenset(name for name in others if name.partition(".")[0] not in sys.stdlib_module_names)
    return Sources(modules=frozenset(found), others=foreign, services=_SERVICES & texts)


def path_of(module: str) -> Path | None:
    """The file of one of our modules; None where it isn't one."""
    place = ROOT.joinpath(*module.split("."))
    for path in (place / "__init__.py", place.with_suffix(".py")):
        if path.is_file():
            return path
    return None


def _module_in(imported: str) -> str | None:
    """The module in a name of which the last part may be something within a module."""
    if path_of(imported) is not None:
        return imported
    outer = imported.rpartition(".")[0]
    return outer if path_of(outer) is not None else None


def _parents(module: str) -> Iterator[str]:
    while "." in module:
        module = module.rpartition(".")[0]
        yield module


@cache
def _read(module: str) -> _Read:
    path = path_of(module)
    assert path is not None
    visitor = _Visitor()
    visitor.visit(ast.parse(path.read_text(encoding="utf-8"), filename=str(path)))
    return _Read(imports=frozenset(visitor.imports), texts=frozenset(visitor.texts))


class _Visitor(ast.NodeVisitor):
    """Collects imports, wherever they stand, and texts."""

    def __init__(self) -> None:
        self.imports: set[str] = set()
        self.texts: set[str] = set()

    def visit_Import(self, node: ast.Import) -> None:  # as ast calls it
        """Import a module."""
        self.imports |= {alias.name for alias in node.names}

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:  # as ast calls it
        """Import something of a module, which may be a module itself; all imports are absolute."""
        self.imports |= {f"{node.module}.{alias.name}" for alias in node.names}

    def visit_If(self, node: ast.If) -> None:  # as ast calls it
        """Leave out what is for type checkers."""
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for otherwise in node.orelse:
                self.visit(otherwise)
            return
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:  # as ast calls it
        """Count what is looked for by its name as imported."""
        name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if name in {"find_spec", "import_module"} and node.args and isinstance(argument := node.args[0], ast.Constant):
            self.imports.add(str(argument.value))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:  # as ast calls it
        """Keep a text."""
        if isinstance(node.value, str):
            self.texts.add(node.value)
