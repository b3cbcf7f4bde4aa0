while [ $# -gt 0 ]; do
  case $1 in
  --dry-run) DRY=1 ;;
  --quiet) QUIET=1 ;;
  --fingerprint | --devices) PRINT_ONLY=$1 ;;
  --help)
    usage
    exit 0
    ;;
  --state | --watch)
    [ $# -gt 1 ] || die "$USAGE" "$1 needs a value; see --help"
    if [ "$1" = --state ]; then STATE=$2; else WATCH=${2:-0}; fi
    shift
    ;;
  --state=*) STATE=${1#*=} ;;
  --watch=*)
    WATCH=${1#*=}
    WATCH=${WATCH:-0}
    ;;
  *) die "$USAGE" "no such option: $1; see --help" ;;
  esac
  shift
done
case $WATCH in
*[!0-9]* | 0* | ??????*) die "$USAGE" "--watch takes a number of seconds from 1 to 99999" ;;
esac
case $STATE in
/*) ;;
*) die "$USAGE" "--state takes an absolute path" ;;
esac

case $PRINT_ONLY in
--fingerprint)
  read_machine
  printf '%s\n' "$live"
  exit 0
  ;;
--devices)
  read_devices
  printf '%s\n' "$live_devices"
  exit 0
  ;;
esac
if [ "$MODE" = observe ] && [ -z "$DRY" ]; then
  OBSERVE=1
  DRY=1
  say "the plan's mode is observe: this only reports what would change"
fi
start_up
cycle
while [ -n "$WATCH" ] && [ -z "$STOP" ]; do
  sleep "$WATCH" >/dev/null 2>&1 &
  sleeper=$!
  wait "$sleeper"
  kill "$sleeper" 2>/dev/null
  [ -n "$STOP" ] || cycle
done
[ -z "$WATCH" ] || result=0
exit "$result"
