"""HTML that cannot be injected into: whatever is not markup already is escaped."""

from __future__ import annotations

from html import escape

_CONTROLS = dict.fromkeys([*range(9), 11, 12, *range(14, 32), *range(0x7F, 0xA0)], "\ufffd")
_VOID = ("meta", "line", "path", "polygon")


class Markup(str):
    """Text that is HTML, made by ``tag`` and ``join`` only."""

    __slots__ = ()


def tag(element: str, /, *children: object, **attributes: object) -> Markup:
    """Return an element; children that are not Markup, and attribute values, are escaped.

    None children are left out. Underscores in attribute names are hyphens, one at the end is
    nothing: ``class_``, ``stroke_width``.
    """
    pairs = (
        f' {key.rstrip("_").replace("_", "-")}="{text(value)}"' for key, value in attributes.items()
    )
    end = "" if element in _VOID else f"{join(*children)}</{element}>"
    return Markup(f"<{element}{''.join(pairs)}{'/' if not end else ''}>{end}")


def join(*children: object) -> Markup:
    """Return the children one after the other, escaped where they are not Markup."""
    return Markup("".join(text(child) for child in children if child is not None))


def text(value: object) -> Markup:
    """Return a value as markup; control characters become U+FFFD."""
    if isinstance(value, Markup):
        return value
    return Markup(escape(str(value).translate(_CONTROLS)))
