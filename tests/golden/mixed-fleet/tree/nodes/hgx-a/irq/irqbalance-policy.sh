#!/bin/sh
# A policy script of irqbalance: keeps it from moving interrupts that tierc places.
# Written by tierc: change the intents and build again rather than this file.
#
# irqbalance calls it once for each interrupt, with the device's directory in /sys and the number
# of the interrupt, and leaves alone those for which it prints ban=true. It changes nothing itself.
#
# To install it, with the path that irqbalance.env names, owned by root:
#   install -D -m 755 irqbalance-policy.sh /etc/tierc/irqbalance-policy
# Then restart irqbalance, which asks only when it first sees an interrupt. In a directory of policy
# scripts, whose name must end in .d, it answers with exit code 1 where it has nothing to say.

DEVICES="0000:1b:00.0 0000:43:00.0 0000:52:00.0 0000:61:00.0 0000:9d:00.0 0000:c3:00.0 0000:d1:00.0 0000:df:00.0"

ban() {
  echo ban=true
  exit 0
}

PROC=${TIERC_PROC:-/proc} # for tests, as below
if [ $# = 2 ] && [ ! -e "${TIERC_ETC:-/etc/tierc}/disabled" ]; then
  for device in $DEVICES; do
    case $1/ in */"$device"/*) ban ;; esac
  done
  # An interrupt that /sys has under no device may still have one's address in its name.
  while read -r number text; do
    [ "$number" = "$2:" ] || continue
    for device in $DEVICES; do
      case " $text " in *[!0-9a-fA-F]"$device"[!0-9a-fA-F]*) ban ;; esac
    done
  done <"$PROC/interrupts"
fi
case $0 in *.d/*) exit 1 ;; esac
exit 0
