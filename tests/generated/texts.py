"""The text of a file: indentation, line ends, comments, spellings of imports and names."""

from __future__ import annotations

import random
import re

from tests.generated.axes import Spec

Lines = list[str]
_SIMPLE = re.compile(r"\s*[\w.\[\]\"$]+(\.\w+\(.*\)|\(.*\)| [-+*/]?= .*)$")
_SUITE = re.compile(r"(\s*)(if|for|else|elif)\b(.*):$")


def shaped(lines: Lines, spec: Spec, seed: str) -> str:
    """The text of a file."""
    lines = _spelled(lines, spec["imports"])
    change = _CHANGES.get(spec["text"])
    lines = change(lines, random.Random(f"text {seed}")) if change else lines
    text = "\n".join(lines) + "\n" if lines else ""
    if spec["text"] == "tabs":
        return re.sub(r"^( {4})+", lambda m: "\t" * (len(m[0]) // 4), text, flags=re.MULTILINE)
    if spec["text"] == "two_spaces":
        return re.sub(r"^( {4})+", lambda m: "  " * (len(m[0]) // 4), text, flags=re.MULTILINE)
    if spec["text"] == "crlf":
        return text.replace("\n", "\r\n")
    return text.rstrip("\n") if spec["text"] == "no_end" else text


def _spelled(lines: Lines, imports: str) -> Lines:
    if imports == "th":
        return [
            "import torch as th"
            if line == "import torch"
            else line
            if re.match(r"(import|from) torch", line)
            else re.sub(r"\btorch\.", "th.", line)
            for line in lines
        ]
    if imports == "from_optim":
        return _from_optim(lines)
    if imports == "module_access":
        return [
            "import torch.nn as nn"
            if line == "from torch import nn"
            else re.sub(r"\btorch\.optim\.(?=[A-Z])", "optim.", line)
            if not line.startswith("import")
            else line
            for line in _with_optim(lines)
        ]
    return lines


def _with_optim(lines: Lines) -> Lines:
    at = lines.index("import torch") if "import torch" in lines else -1
    return lines if at < 0 else [*lines[: at + 1], "import torch.optim as optim", *lines[at + 1 :]]


def _from_optim(lines: Lines) -> Lines:
    names = sorted(set(re.findall(r"torch\.optim\.(SGD|AdamW|Adam|RMSprop)\b", "\n".join(lines))))
    if not names or "import torch" not in lines:
        return lines
    at = lines.index("import torch")
    head = [*lines[: at + 1], f"from torch.optim import {', '.join(names)}", *lines[at + 1 :]]
    return [re.sub(r"\btorch\.optim\.(?=(SGD|AdamW|Adam|RMSprop)\b)", "", line) for line in head]


def _commented(lines: Lines, random_: random.Random) -> Lines:
    result: Lines = []
    for line in lines:
        plain = _SIMPLE.fullmatch(line) and line.startswith("    ") and not line.endswith(",")
        if plain and random_.random() < 0.4:
            indent = line[: len(line) - len(line.lstrip())]
            result.append(f"{indent}# about: {line.strip()}")
        elif plain and random_.random() < 0.15:
            result.append(f"{line}  # beside")
            continue
        result.append(line)
    return result


def _semicolons(lines: Lines, random_: random.Random) -> Lines:
    result: Lines = []
    for line in lines:
        indent = line[: len(line) - len(line.lstrip())]
        last = result[-1] if result else ""
        same = last.startswith(indent) and last[len(indent) : len(indent) + 1].strip()
        if indent and same and _SIMPLE.fullmatch(line) and _SIMPLE.fullmatch(last):
            if random_.random() < 0.4:
                result[-1] = f"{last}; {line.strip()}"
                continue
        result.append(line)
    return result


def _one_line_suites(lines: Lines, random_: random.Random) -> Lines:
    result: Lines = []
    for at, line in enumerate(lines):
        head = _SUITE.fullmatch(result[-1]) if result else None
        inner = len(line) - len(line.lstrip())
        after = lines[at + 1] if at + 1 < len(lines) else ""
        alone = len(after) - len(after.lstrip()) < inner or not after
        if head and inner == len(head[1]) + 4 and alone and _SIMPLE.fullmatch(line):
            result[-1] += f" {line.strip()}"
        else:
            result.append(line)
    return result


def _documented(lines: Lines, random_: random.Random) -> Lines:
    return ['"""A program that trains."""', "from __future__ import annotations", "", *lines]


def _taken_names(lines: Lines, random_: random.Random) -> Lines:
    """The names that AMP would like to have, taken by others."""
    if not any(
        line.startswith(("def batches", "from support", "from project.support")) for line in lines
    ):
        return lines
    last = max(k for k, line in enumerate(lines) if line.startswith(("import ", "from ")))
    taken = ["", "scaler = max", "use_amp = 3", "autocast = None"]
    return [*lines[: last + 1], *taken, *lines[last + 1 :]]


def _non_ascii(lines: Lines, random_: random.Random) -> Lines:
    return ["# -*- coding: utf-8 -*-", "# Schöne Verluste, 損失", *lines]


_CHANGES = {
    "comments": _commented,
    "semicolons": _semicolons,
    "one_line_suites": _one_line_suites,
    "docstring": _documented,
    "taken_names": _taken_names,
    "non_ascii": _non_ascii,
}
