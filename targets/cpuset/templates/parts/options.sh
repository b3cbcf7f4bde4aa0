# --- Options of these scripts alone; the others are left to what follows -------------------------

{% if own_options %}
V1=
{% endif %}
OTHER_ROOT=
asked= # for the value of an option
for option; do
  shift
  case $asked:$option in
  root:*)
    OTHER_ROOT=${option:-.}
    asked=
    ;;
  other:*)
    set -- "$@" "$option"
    asked=
    ;;
  :--cgroup-root) asked=root ;;
  :--cgroup-root=*)
    OTHER_ROOT=${option#*=}
    OTHER_ROOT=${OTHER_ROOT:-.}
    ;;
{% if own_options %}
  :--v1) V1=1 ;;
{% endif %}
  :--state | :--watch)
    set -- "$@" "$option"
    asked=other
    ;;
  *) set -- "$@" "$option" ;;
  esac
done
[ "$asked" != root ] || die "$USAGE" "--cgroup-root needs a value; see --help"
case $OTHER_ROOT in
'') ;;
/*) CGROUP=$OTHER_ROOT ;;
*) die "$USAGE" "--cgroup-root takes an absolute path" ;;
esac
