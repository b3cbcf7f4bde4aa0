"""The tier graph as a picture: boxes in ranks, edges between them.  No format, no layout."""

from __future__ import annotations

from compiler.picture.draw import node_picture, policy_picture
from compiler.picture.model import Box, Edge, Key, Kind, Picture, Rank

__all__ = ["Box", "Edge", "Key", "Kind", "Picture", "Rank", "node_picture", "policy_picture"]
