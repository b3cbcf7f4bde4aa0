while [ $# -gt 0 ]; do
  case $1 in
  --dry-run) DRY=1 ;;
  --quiet) QUIET=1 ;;
  --help)
    usage
    exit 0
    ;;
  --state)
    [ $# -gt 1 ] || die "$USAGE" "$1 needs a value; see --help"
    STATE=$2
    shift
    ;;
  --state=*) STATE=${1#*=} ;;
  *) die "$USAGE" "no such option: $1; see --help" ;;
  esac
  shift
done
case $STATE in
/*) ;;
*) die "$USAGE" "--state takes an absolute path" ;;
esac
