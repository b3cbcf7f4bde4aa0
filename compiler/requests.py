"""From resolved lanes to what the placer is asked."""

from __future__ import annotations

from dataclasses import replace

from compiler.place import LaneRequest
from compiler.resolve.types import Resolution, ResolvedLane


def lane_requests(resolution: Resolution) -> list[LaneRequest]:
    """Return the lanes of a node as requests, with the localities they are divided into."""
    return [_request(lane) for lane in resolution.lanes]


def _request(lane: ResolvedLane) -> LaneRequest:
    whole = _plain(lane)
    if lane.divided is None:
        return whole
    spanning, family = (
        lane.name if lane.divided == kind else None for kind in ("spanning", "family")
    )
    parts = tuple(
        _plain(lane.as_part(part), part_of=spanning, member_of=family) for part in lane.parts
    )
    return replace(whole, divided=lane.divided, parts=parts)


def _plain(
    lane: ResolvedLane, part_of: str | None = None, member_of: str | None = None
) -> LaneRequest:
    return LaneRequest(
        name=lane.name,
        tier=lane.tier,
        order=lane.order,
        min=lane.min,
        max=lane.max,
        share=lane.share.value,
        prefer=lane.prefer,
        require=lane.require,
        devices=lane.devices,
        nics=lane.nics,
        part_of=part_of,
        member_of=member_of,
    )
