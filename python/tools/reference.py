# SPDX-License-Identifier: Apache-2.0
"""Writes docs/reference/python.md from the docstrings of the package and its type stub.

  python reference.py            writes it
  python reference.py --check    exit status 1 when it is not current
"""

import ast
import inspect
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "orlop"
PAGE = PACKAGE.parent.parent / "docs/reference/python.md"

HEAD = """# Python reference

Written by `python/tools/reference.py` from the package's docstrings; do not edit. First steps:
[python/README.md](../../python/README.md).

*Buffer*: any object with the buffer protocol whose memory is C-contiguous. *Keys*: one bytes-like
object (one key), an iterable of them, `PackedKeys`, or a 2-D buffer of uint8 whose rows are keys.
*Buffers*: one Buffer per key, or one Buffer for all of them. Times are seconds.
"""

# Section, module (file of the package), names in it.
SECTIONS = [
    ("Client", "client.py", ["Client"]),
    ("Private node", "node.py", ["serve", "Node"]),
    ("Namespaces", "descriptor.py", ["NamespaceDescriptor"]),
    ("", "_native.pyi", ["Namespace"]),
    ("Keys", "_native.pyi", ["PackedKeys"]),
    ("Writing", "_native.pyi", ["PutPlan", "Future"]),
    ("Reading", "_native.pyi", ["GetHandle", "GetResult", "ReadPlan", "ExistsResult"]),
    ("Statistics", "_native.pyi", ["Stats"]),
    ("Pages of an engine's cache: orlop.gpu", "gpu.py",
     ["PageCache", "KvLayout", "KvPart", "KvPool", "part_from"]),
    ("", "_native.pyi", ["Backup", "Restore", "PageCacheStats"]),
    ("Outcomes", "outcomes.py", ["Outcome", "MissReason"]),
    ("Errors", "errors.py", []),
]
SHOWN_DUNDERS = {"__len__", "__getitem__", "__await__"}


def text_of(node: ast.AST) -> str:
    return inspect.cleandoc(ast.get_docstring(node) or "")


def signature(node: ast.FunctionDef) -> str:
    shown = ast.unparse(node.args)
    for own in ("self, ", "self"):
        if shown.startswith(own):
            shown = shown[len(own):]
            break
    result = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    return f"{node.name}({shown}){result}".replace("'", "").replace('"', "")


def is_property(node: ast.FunctionDef) -> bool:
    return any(ast.unparse(one) == "property" for one in node.decorator_list)


def members_of(node: ast.ClassDef) -> list[str]:
    lines = []
    for member in node.body:
        if not isinstance(member, ast.FunctionDef):
            continue
        if member.name.startswith("_") and member.name not in SHOWN_DUNDERS:
            continue
        if is_property(member):
            shown = f"{member.name}: {ast.unparse(member.returns) if member.returns else 'Any'}"
        else:
            shown = signature(member)
        body = text_of(member).replace("\n\n", "\n").replace("\n", "\n  ")
        lines.append(f"- `{shown}`\n  {body}".rstrip())
    return lines


def fields_of(node: ast.ClassDef, source: list[str]) -> list[str]:
    """Constants and dataclass fields, with their `#:` comments."""
    lines = []
    for member in node.body:
        if not isinstance(member, ast.Assign | ast.AnnAssign):
            continue
        code, _, comment = source[member.lineno - 1].strip().partition("  #: ")
        if "code" in code.split(":")[0].split(" ")[0]:
            continue
        lines.append(f"- `{code}`" + (f" {comment}" if comment else ""))
    return lines


def describe(node: ast.ClassDef | ast.FunctionDef, source: list[str]) -> str:
    if isinstance(node, ast.FunctionDef):
        return f"### {signature(node)}\n\n{text_of(node)}\n"
    parts = [f"### {node.name}", text_of(node)]
    listed = fields_of(node, source) + members_of(node)
    if node.name == "Client":
        native = definitions("_native.pyi")[0]["Client"]
        assert isinstance(native, ast.ClassDef)
        start = next(one for one in native.body if getattr(one, "name", "") == "__init__")
        assert isinstance(start, ast.FunctionDef)
        parts.insert(1, f"`{signature(start).replace('__init__', 'Client').split(' ->')[0]}`")
        listed += members_of(native)
    if listed:
        parts.append("\n".join(listed))
    return "\n\n".join(part for part in parts if part) + "\n"


def definitions(file: str) -> tuple[dict[str, ast.ClassDef | ast.FunctionDef], list[str]]:
    text = (PACKAGE / file).read_text()
    return {node.name: node for node in ast.parse(text).body
            if isinstance(node, ast.ClassDef | ast.FunctionDef)}, text.splitlines()


def errors() -> str:
    found, source = definitions("errors.py")
    del source
    lines = [text_of(ast.parse((PACKAGE / "errors.py").read_text())), "",
             "| class | meaning |", "|---|---|"]
    for node in found.values():
        if isinstance(node, ast.ClassDef):
            bases = ", ".join(ast.unparse(base) for base in node.bases)
            lines.append(f"| `{node.name}` ({bases}) | {text_of(node).splitlines()[0]} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    parts = [HEAD]
    for title, file, names in SECTIONS:
        if title:
            parts.append(f"## {title}\n")
        if file == "errors.py":
            parts.append(errors())
            continue
        found, source = definitions(file)
        parts += [describe(found[name], source) for name in names]
    return "\n".join(parts)


def main() -> int:
    if "--check" in sys.argv:
        if PAGE.exists() and PAGE.read_text() == page():
            return 0
        print(f"{PAGE} is not current; run python/tools/reference.py")
        return 1
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
