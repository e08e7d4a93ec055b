"""HTML safe from injection: everything except Markup is escaped."""

from __future__ import annotations

from html import escape

_ORDER = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Characters that reorder what comes after them, beyond the end of a name."""
_CONTROLS = dict.fromkeys(
    [*range(9), 11, 12, *range(14, 32), *range(0x7F, 0xA0), *_ORDER], "\ufffd"
)
_VOID = ("meta", "line", "path", "polygon", "img")


class Markup(str):
    """HTML text, created only by ``tag`` and ``join``."""

    __slots__ = ()


def tag(element: str, /, *children: object, **attributes: object) -> Markup:
    """Return an element; attribute values and children other than Markup are escaped.

    Children that are None are left out. Underscores in attribute names become hyphens, a final one is
    removed: ``class_``, ``stroke_width``.
    """
    pairs = (
        f' {key.rstrip("_").replace("_", "-")}="{text(value)}"' for key, value in attributes.items()
    )
    end = "" if element in _VOID else f"{join(*children)}</{element}>"
    return Markup(f"<{element}{''.join(pairs)}{'/' if not end else ''}>{end}")


def join(*children: object) -> Markup:
    """Concatenate children, escaped except for Markup."""
    return Markup("".join(text(child) for child in children if child is not None))


def text(value: object) -> Markup:
    """Return an escaped value; control characters become U+FFFD."""
    if isinstance(value, Markup):
        return value
    return Markup(escape(str(value).translate(_CONTROLS)))
