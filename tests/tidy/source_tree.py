# SPDX-License-Identifier: Apache-2.0
"""The source tree as the tidy rules see it: files, their includes, their code without comments."""

import dataclasses
import functools
import os
import re

CPP_SUFFIXES = (".h", ".cpp", ".c", ".cu")
SCRIPT_SUFFIXES = (".py", ".sh")
FOLDERS = ("src", "include", "tests", "bench", "examples", "python", "cmake", ".ci")
TOP_FILES = ("CMakeLists.txt", "dev")
SKIPPED_FOLDERS = ("build", "__pycache__", "node_modules")


@dataclasses.dataclass(frozen=True)
class Violation:
    path: str
    line: int
    rule: str
    text: str

    def __str__(self):
        return f"{self.path}:{self.line}: [{self.rule}] {self.text}"


@dataclasses.dataclass(frozen=True)
class Include:
    line: int
    target: str
    quoted: bool


class Source:
    """One file; `path` is relative to the root, with forward slashes."""

    def __init__(self, path, text):
        self.path = path
        self.text = text
        self.lines = text.splitlines()

    @property
    def is_cpp(self):
        return self.path.endswith(CPP_SUFFIXES)

    @property
    def is_cmake(self):
        return self.path.endswith((".cmake", "CMakeLists.txt"))

    @property
    def is_script(self):
        return self.path.endswith(SCRIPT_SUFFIXES) or self.text.startswith("#!")

    @property
    def is_test(self):
        """A unit test, or what unit tests share: fake_*, test_*, *_test_*, *_fixture."""
        name = self.path.rsplit("/", 1)[-1]
        return self.is_cpp and bool(re.match(r"(fake|test)_|.*_(test[_.]|fixture\.)", name))

    @property
    def room(self):
        """The room of src/ that the file is in, None elsewhere."""
        parts = self.path.split("/")
        return parts[1] if parts[0] == "src" and len(parts) > 2 else None

    @functools.cached_property
    def code(self):
        """C++ text of the same length and lines with comments and literals blanked."""
        return strip_cpp(self.text)

    @functools.cached_property
    def includes(self):
        found = []
        for number, line in enumerate(self.lines, 1):
            match = re.match(r'\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', line)
            if match:
                found.append(Include(number, match[1] or match[2], match[1] is not None))
        return found

    def line_of(self, offset):
        return self.text.count("\n", 0, offset) + 1


class Tree:
    def __init__(self, sources):
        self.sources = sorted(sources, key=lambda s: s.path)
        self.by_path = {s.path: s for s in self.sources}

    def cpp(self):
        return [s for s in self.sources if s.is_cpp]

    def included_file(self, target):
        """The file of this tree that an include names, None for one from outside."""
        return self.by_path.get(f"src/{target}") or self.by_path.get(f"include/{target}")

    def with_includes(self, source):
        """The file and every file of this tree that it includes, directly or not."""
        seen, queue = {source.path: source}, [source]
        while queue:
            for include in queue.pop().includes:
                found = self.included_file(include.target)
                if found and found.path not in seen:
                    seen[found.path] = found
                    queue.append(found)
        return list(seen.values())


def load(root):
    sources = []
    for folder in FOLDERS:
        for directory, names, files in os.walk(os.path.join(root, folder)):
            names[:] = [n for n in names if n not in SKIPPED_FOLDERS]
            for name in files:
                full = os.path.join(directory, name)
                _add(sources, root, os.path.relpath(full, root).replace(os.sep, "/"))
    for name in TOP_FILES:
        if os.path.exists(os.path.join(root, name)):
            _add(sources, root, name)
    return Tree(sources)


def _add(sources, root, path):
    try:
        with open(os.path.join(root, path), encoding="utf-8") as file:
            source = Source(path, file.read())
    except UnicodeDecodeError:
        return  # a binary file: none of the rules is about it
    if source.is_cpp or source.is_cmake or source.is_script:
        sources.append(source)


_TOKEN = re.compile(
    r"""//[^\n]*
      | /\*.*?\*/
      | R"(?P<tag>[^()\\\s]*)\(.*?\)(?P=tag)"
      | "(?:\\.|[^"\\\n])*"
      | (?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'
    """,
    re.VERBOSE | re.DOTALL,
)


def strip_cpp(text):
    """Blanks comments and literals; newlines stay, so offsets and line numbers stay too."""

    def blank(match):
        found = match[0]
        inner = re.sub(r"[^\n]", " ", found)
        # Literals keep their quotes: `""` must not turn into nothing between two words.
        return found[0] + inner[1:-1] + found[-1] if found[0] in "\"'" else inner

    return _TOKEN.sub(blank, text)
