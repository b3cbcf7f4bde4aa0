"""What the operator wrote into NodeFacts documents that are sources."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.facts.merge.log import Log, base_name
from compiler.facts.partial import Partial
from compiler.model.facts import Device, Overrides


def merge_overrides(log: Log, partials: Sequence[Partial], devices: Sequence[Device]) -> Overrides:
    """Return the overrides of the only document that has some.

    Those of several are not joined: nothing says which of them counts.  An override of a device
    whose id counts another one now is kept, with a remark.
    """
    said = [one for one in partials if one.overrides is not None]
    if not said:
        return Overrides()
    first = said[0]
    if any((p.overrides, p.overridden) != (first.overrides, first.overridden) for p in said):
        names = ", ".join(dict.fromkeys(base_name(one.file) for one in said))
        log.remark(
            f"overrides: {names} have different ones; none is kept, so write the right ones into "
            "the facts"
        )
        return Overrides()
    found = first.overrides or Overrides()
    now = {device.id: device.bdf or device.uuid for device in devices}
    for override in found.devices:
        was = first.overridden.get(override.id)
        if override.id not in now:
            log.about(first, f"overrides.devices: there is no {override.id} any more")
        elif was is not None and was != now[override.id]:
            log.about(
                first,
                f"overrides.devices: {override.id} was {was} and is "
                f"{now[override.id] or 'unknown'} now; is what it says still meant?",
            )
    return found
