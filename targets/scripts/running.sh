# --- Running ------------------------------------------------------------------------------------

ETC=${TIERC_ETC:-/etc/tierc}
REFUSED=3 # another CPU layout than planned
WATCH=
PRINT_ONLY=
OBSERVE= # the plan, not the caller, wants a dry run
said=
saying=
cycles=0

# With --watch, what was said in the last cycle is not said again.
warn_once() {
  case $NL$said in *"$NL$1$NL"*) ;; *) warn "$1" ;; esac
  saying=$saying$1$NL
}

# In mode observe the kill switch acts too, on what an earlier plan changed. Only then is the lock
# needed.
choose_dry_run() {
  DRY=1
  if ! [ -e "$ETC/disabled" ] || ! [ -e "$STATE/state" ]; then
    [ -z "$locked" ] || rm -f -- "$STATE/lock"
    locked=
  elif [ -n "$locked" ]; then
    DRY=
  elif [ "$(id -u)" != 0 ]; then
    warn_once "not root: what an earlier plan changed is not put back"
  elif owner_lives; then
    warn_once "$STATE is locked by process $owner_pid: putting back is left to that"
  else
    take_lock
    DRY=
  fi
}
