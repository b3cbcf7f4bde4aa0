"""Values in configuration files that are nobody else's business."""

from __future__ import annotations

import json
import re
from typing import Any, Final

SECRET: Final = re.compile(
    rb"token|passw|secret|credential|private|auth|header|certificate|[-_]key|keydata|proxy",
    re.IGNORECASE,
)
"""Names of options whose values are left out."""

_USER_OF_URL: Final = re.compile(rb"(://)[^/\s@\"']{1,1024}@")
_KEY: Final = re.compile(rb"""( *)(?:- +)*["']?([A-Za-z0-9_.-]+)["']?[ \t]*:(?:[ \t]|$)""")
_KUBECONFIG: Final = re.compile(rb"""^kind:[ \t]*["']?Config["']?[ \t\r]*$""", re.MULTILINE)
_VARIABLE: Final = re.compile(rb"[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)=")
_OPTION: Final = re.compile(
    rb"""(?<![A-Za-z0-9-])(--?[A-Za-z0-9-]+)([= \t]+)("[^"\n]*"|'[^'\n]*'|[^\s"'-][^\s"']*)"""
)


def without_users(data: bytes) -> bytes:
    """Return a text without the user names and passwords in its URLs."""
    return _USER_OF_URL.sub(rb"\1", data)


def without_secrets(data: bytes) -> bytes:
    """Return the content of a JSON, YAML, environment or options file without secrets.

    Settings whose names look like those of secrets are left out with all that is below them; of a
    kubeconfig only its kind stays; of environment variables only those of the kubelet; of URLs no
    user and password.
    """
    return _kept(without_users(data))


def _kept(data: bytes) -> bytes:
    if data.lstrip().startswith(b"{"):
        return _json(data)
    if _KUBECONFIG.search(data):
        return b"kind: Config\n"
    kept: list[bytes] = []
    hidden: int | None = None
    for line in data.splitlines(keepends=True):
        inner = line.lstrip(b" ")
        indent = len(line) - len(inner)
        if hidden is not None:
            # Lists may be as deep as the key they belong to.
            if not inner.strip() or indent > hidden or (indent == hidden and inner[:1] == b"-"):
                continue
            hidden = None
        key = _KEY.match(line)
        variable = _VARIABLE.match(line)
        if key is not None and SECRET.search(key[2]):
            hidden = indent
        elif variable is None or variable[1].startswith(b"KUBELET"):
            kept.append(_OPTION.sub(_without_value, line))
    return b"".join(kept)


def _without_value(match: re.Match[bytes]) -> bytes:
    return match[1] + match[2].rstrip(b" \t") if SECRET.search(match[1]) else match[0]


def _json(data: bytes) -> bytes:
    try:
        content = json.loads(data)
        kept = _pruned(content)
    except (ValueError, RecursionError):
        return b"{"  # as unusable as it was
    return data if kept == content else json.dumps(kept).encode() + b"\n"


def _pruned(value: Any) -> Any:
    if isinstance(value, list):
        return [_pruned(one) for one in value]
    if not isinstance(value, dict):
        return value
    if value.get("kind") == "Config":
        return {"kind": "Config"}
    return {k: _pruned(one) for k, one in value.items() if not SECRET.search(k.encode())}
