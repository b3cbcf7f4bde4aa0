# --- The state: what we changed, and what it was ------------------------------------------------
#
{% for line in own.state_form %}
# {{ line }}
{% endfor %}

# Copies the valid lines to work/state.
load_state() {
  : >"$work/state"
  dirty=
  [ -e "$STATE/state" ] || return 0
  dirty=1
  [ -s "$STATE/state" ] || return 0
  IFS= read -r header <"$STATE/state" || header=
  case $header in
  "$FORMAT $boot") ;;
  "$FORMAT "*)
    say "the state is of an earlier boot; nothing of it is left to put back"
    return 0
    ;;
  *) die "$FOREIGN" "$STATE/state is not a state of this version; nothing was changed. Move it away to go on without it" ;;
  esac
  dirty=
  awk 'function list(x) { return length(x) < 9999 && x ~ /^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$/ }
    NR == 1 { next }
    {{ own.state_test }} {
      print > (ENVIRON["work"] "/state")
      next
    }
    { bad++ }
    END { print bad + 0 }' "$STATE/state" >"$work/bad"
  read -r bad <"$work/bad"
  [ "$bad" = 0 ] && return 0
  warn "$bad damaged lines in $STATE/state: their {{ own.thing }}s cannot be put back"
  [ "$result" != 0 ] || result=$PARTLY
  dirty=1
  [ -n "$DRY" ] || cp -- "$STATE/state" "$STATE/state.damaged"
}

# Puts a file of lines in place of the state, at once or not at all. A power cut needs no care:
# {{ own.what }} does not outlive it either.
store_state() { # FILE
  if [ ! -s "$1" ]; then
    rm -f -- "$STATE/state"
    return
  fi
  digest=$(sorted_state "$1" | sha256sum)
  # The tools of busybox end well on a full disk: so what has been written is read back.
  if ! sorted_state "$1" >"$STATE/state.new" ||
    [ "$(sha256sum <"$STATE/state.new")" != "$digest" ] ||
    ! mv -f -- "$STATE/state.new" "$STATE/state"; then
    rm -f -- "$STATE/state.new"
    die "$BROKEN" "cannot write $STATE/state"
  fi
}
sorted_state() { printf '%s\n' "$FORMAT $boot" && sort -n "$1"; }
