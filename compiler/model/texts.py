"""Whether a text by itself has the form that the model asks of names and labels."""

from typing import Final

from pydantic import TypeAdapter, ValidationError

from compiler.model.base import LabelKey, LabelValue, Name, NodeName

_NAME: Final[TypeAdapter[str]] = TypeAdapter(Name)
_NODE_NAME: Final[TypeAdapter[str]] = TypeAdapter(NodeName)
_KEY: Final[TypeAdapter[str]] = TypeAdapter(LabelKey)
_VALUE: Final[TypeAdapter[str]] = TypeAdapter(LabelValue)


def is_name(text: str) -> bool:
    """Tell whether a text can be the name of a document, or of a namespace."""
    return _fits(_NAME, text)


def is_node_name(text: str) -> bool:
    """Tell whether a text can be the name of a node."""
    return _fits(_NODE_NAME, text)


def is_label(key: str, value: str) -> bool:
    """Tell whether a key and a value can be a label."""
    return is_label_key(key) and _fits(_VALUE, value)


def is_label_key(text: str) -> bool:
    """Tell whether a text can be the key of a label."""
    return _fits(_KEY, text)


def _fits(form: TypeAdapter[str], text: str) -> bool:
    try:
        form.validate_python(text)
    except ValidationError:
        return False
    return True
