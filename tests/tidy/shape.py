# SPDX-License-Identifier: Apache-2.0
"""Rules about the shape of files: length, licence line, leftovers, names of folders."""

import re

from source_tree import Violation

MAX_FILE_LINES = 800
MAX_FUNCTION_LINES = 100
SPDX = "SPDX-License-Identifier: Apache-2.0"
# Written in halves so that this file does not find itself.
LEFTOVER = re.compile(r"\b(FIX" r"ME|TO" r"DO|X" r"XX)\b")
FOLDERS_WITHOUT_MEANING = {"utils", "util", "common", "helpers", "misc"}


def check(tree, _rooms):
    for source in tree.sources:
        yield from _length(source)
        yield from _licence(source)
        yield from _leftovers(source)
        yield from _folders(source)
        if source.is_cpp:
            yield from _functions(source)


def _length(source):
    if len(source.lines) > MAX_FILE_LINES:
        yield Violation(source.path, 1, "file-length",
                        f"{len(source.lines)} lines; at most {MAX_FILE_LINES}")


def _licence(source):
    if source.is_cmake:
        return
    head = source.lines[:1]
    if head and head[0].startswith("#!"):
        head = source.lines[1:2]
    if not head or SPDX not in head[0]:
        yield Violation(source.path, 1, "spdx", f"the first line is not '{SPDX}'")


def _leftovers(source):
    for number, line in enumerate(source.lines, 1):
        match = LEFTOVER.search(line)
        if match:
            yield Violation(source.path, number, "leftover", f"'{match[1]}': do it or file an issue")


def _folders(source):
    for part in source.path.split("/")[:-1]:
        if part in FOLDERS_WITHOUT_MEANING:
            yield Violation(source.path, 1, "folder", f"'{part}' says nothing; name what is in it")


def _functions(source):
    for line, length, name in function_lengths(source.code):
        if length > MAX_FUNCTION_LINES:
            yield Violation(source.path, line, "function-length",
                            f"'{name}' has {length} lines; at most {MAX_FUNCTION_LINES}")


_CONTAINER = re.compile(
    r"\s*(?:(?:inline|typedef|static|constexpr|export)\s+)*(namespace|class|struct|union|enum|extern)\b")
_DECORATION = re.compile(r"\[\[.*?\]\]|\balignas\s*\([^)]*\)|^\s*#[^\n]*$", re.DOTALL | re.MULTILINE)


def function_lengths(code):
    """(line, lines, name) of every outermost function body; a heuristic, not a parser."""
    code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: re.sub(r"[^\n]", " ", m[0]), code,
                  flags=re.MULTILINE)
    # A member's braces in a constructor's head, `: a_{a} {`, are not a body.
    code = re.sub(r"(\w)\{([^{};]*)\}(?=\s*[,{])", r"\1(\2)", code)
    found, stack, head_start = [], [], 0
    for match in re.finditer(r"[{};]", code):
        mark, at = match[0], match.start()
        inside_function = any(entry is not None for entry in stack)
        if mark == "{":
            head = code[head_start:at]
            if not inside_function and _is_function_head(head):
                stack.append((at, _name(head)))
            else:
                stack.append(None)
        elif mark == "}" and stack:
            entry = stack.pop()
            if entry is not None:
                first, last = code.count("\n", 0, entry[0]) + 1, code.count("\n", 0, at) + 1
                found.append((first, last - first + 1, entry[1]))
        head_start = at + 1
    return found


def _is_function_head(head):
    head = _DECORATION.sub(" ", head)
    head = re.sub(r"^\s*template\s*<.*?>\s*(?=\w)", " ", head, flags=re.DOTALL)
    return "(" in head and not _CONTAINER.match(head)


def _name(head):
    match = re.search(r"([\w:~]+)\s*\(", head)
    if not match:
        return "function"
    if match[1].startswith("TEST"):
        return re.sub(r"\s+", " ", head.strip())
    return match[1]
