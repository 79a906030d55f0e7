"""Names of kernels, short enough to be read: templates, argument lists and manglings are cut to what tells them apart.

The names come from the code under test: whatever they hold, the result is a part of it, and no longer than asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

LONGEST = 72
NAMELESS = "(no name)"
_SCANNED = 4000
"""Characters of a name that are looked at."""
_DULL = {
    "std", "array", "char", "float", "double", "int", "long", "unsigned", "bool", "void", "short", "half", "true",
    "false", "tuple", "pair", "integral_constant", "const", "__half", "__nv_bfloat16", "Half", "BFloat16",
    "OffsetCalculator", "TrivialOffsetCalculator", "LoadWithoutCast", "StoreWithoutCast", "LoadWithCast",
    "StoreWithCast", "TensorIteratorBase", "TensorInfo", "Array", "complex",
}  # fmt: skip
_WRAPPERS = {
    "BinaryFunctor", "AUnaryFunctor", "BUnaryFunctor", "ReduceOp", "func_wrapper_t", "BinaryOpListAlphaFunctor",
}  # fmt: skip
"""What they wrap says more."""
_ANONYMOUS = re.compile(r"\(anonymous namespace\)(::)?|<unnamed>(::)?")
_IDENTIFIER = re.compile(r"[A-Za-z_~][\w~]*")
_FUNCTION = re.compile(r"(?:void )?\w+\(")
_LITERAL = re.compile(r"L[a-z]\d+E")


def short(name: str, longest: int = LONGEST) -> str:
    """``elementwise_kernel<AddFunctor>`` for 200 characters of C++; what is still too long loses the middle."""
    text = name[:_SCANNED]
    base, inner = _mangled(text) if text.startswith("_Z") else _plain(text)
    return clipped(f"{base}<{inner}>" if inner and inner != base else base, longest)


def short_names(names: Iterable[str]) -> dict[str, str]:
    """A short name for each, no two the same."""
    wanted = list(dict.fromkeys(names))
    out: dict[str, str] = {}
    taken: set[str] = set()
    plain = [short(name) for name in wanted]
    for name, brief in zip(wanted, plain, strict=True):
        chosen = brief if plain.count(brief) == 1 else clipped(_without_arguments(name[:_SCANNED]), 2 * LONGEST)
        number = 1
        while chosen in taken:
            number += 1
            chosen = f"{clipped(brief, LONGEST - 6)} ({number})"
        taken.add(chosen)
        out[name] = chosen
    return out


def clipped(text: str, longest: int) -> str:
    """Beginning and end: variants of a matrix product differ at the end."""
    if len(text) <= longest:
        return text
    head = (longest - 1) * 3 // 5
    return f"{text[:head]}…{text[len(text) - (longest - 1 - head) :]}"


# --- as the demangler writes them ------------------------------------------------------------------------------------


def _plain(name: str) -> tuple[str, str]:
    if not ("<" in name or "::" in name or _FUNCTION.match(name)):
        return name.strip() or NAMELESS, ""  # no C++: Triton's, a library's, a copy's
    text = _without_arguments(name)
    at = text.find("<")
    base = _last(text[:at] if at > 0 else text)
    if not _IDENTIFIER.fullmatch(base):
        return name.strip() or NAMELESS, ""
    return base, _telling(text[at + 1 :].rstrip().removesuffix(">")) if at > 0 else ""


def _without_arguments(name: str) -> str:
    """Without return type and parameter list."""
    text = _ANONYMOUS.sub("", name).strip()
    depth = 0
    for at, character in enumerate(text):
        if character == "<":
            depth += 1
        elif character == ">":
            depth -= 1
        elif character == "(" and depth <= 0 and at:
            text = text[:at]
            break
    return text.removeprefix("void ").strip()


def _last(path: str) -> str:
    """The last part of ``a::b::c``, without a type before it."""
    return path.rstrip().rsplit("::", 1)[-1].rsplit(" ", 1)[-1]


def _telling(arguments: str, depth: int = 0) -> str:
    """Of template arguments the first that is more than a type of number."""
    for one in _split(arguments):
        head = one.split("(", 1)[0] if not one.startswith("(") else ""
        path, _, inside = head.partition("<")
        last = _last(path)
        if _tells(last):
            return last
        if inside and depth < 6:
            found = _telling(one.partition("<")[2], depth + 1)
            if found:
                return found
    return ""


def _tells(word: str) -> bool:
    return (
        _IDENTIFIER.fullmatch(word) is not None
        and word not in _DULL
        and word not in _WRAPPERS
        and not word.endswith("Metadata")
    )


def _split(arguments: str) -> Iterator[str]:
    """At the commas that are inside no bracket."""
    depth, begin = 0, 0
    for at, character in enumerate(arguments):
        if character in "<({":
            depth += 1
        elif character in ">)}":
            depth -= 1
        elif character == "," and depth <= 0:
            yield arguments[begin:at].strip()
            begin = at + 1
    yield arguments[begin:].strip()


# --- as the compiler writes them (where nobody has demangled them) ---------------------------------------------------


def _mangled(name: str) -> tuple[str, str]:
    """Of the Itanium ABI only what names things: the function's own path, and what its template arguments name."""
    path: list[str] = []
    at = 3 if name.startswith(("_ZN", "_ZL")) else 2
    while at < len(name):
        if name[at].isdigit():
            word, at = _counted(name, at)
            if not word:
                break
            path.append(word)
        elif name[at] in "rVKL":
            at += 1
        elif name[at] == "S":
            at = max(name.find("_", at) + 1, at + 2) if name[at : at + 2] not in {"St", "Sa", "Ss"} else at + 2
        else:
            break
    if not path:
        return name, ""
    inner = ""
    if name[at : at + 1] == "I":
        inner = next((word for word in _words(name[at + 1 :]) if _tells(word)), "")
    return path[-1], inner


def _counted(name: str, at: int) -> tuple[str, int]:
    """``3abc``: the word and where it ends; no word where the name is shorter."""
    end = at
    while end < len(name) and name[end].isdigit() and end - at < 4:
        end += 1
    length = int(name[at:end])
    return (name[end : end + length], end + length) if 0 < length <= len(name) - end else ("", end)


def _words(text: str) -> Iterator[str]:
    """Of each path in a mangled list only the part that is no namespace: the next word follows another directly."""
    at, last, previous_end = 0, "", -1
    while at < len(text):
        literal = _LITERAL.match(text, at)
        if literal:
            at = literal.end()
        elif text[at].isdigit():
            begin = at
            word, at = _counted(text, at)
            if word and last and begin != previous_end:
                yield last
            if word:
                last, previous_end = word, at
        else:
            at += 1
    if last:
        yield last
