# --- A dry run ------------------------------------------------------------------------------------

# Says what a dry run would do, but nothing that it said in the cycle before. Sets $news if it is
# not the same.
tell_actions() {
  while read -r verb _; do
    case $verb in set) changed=$((changed + 1)) ;; *) restored=$((restored + 1)) ;; esac
  done <"$work/actions"
  news=
  # shellcheck disable=SC2034 # read by apply.sh
  cmp -s "$work/actions" "$work/told" || news=1
  awk 'what == "told" { told[$0] = 1; next } !($0 in told)' \
    what=told "$work/told" what=actions "$work/actions" >"$work/untold"
  while read -r verb{{ " _" * (own.actions.split(" ") | length - 1) }} description; do
{% if own.verb != "set" %}
    [ "$verb" != set ] || verb={{ own.verb }}
{% endif %}
    say "would $verb $description"
  done <"$work/untold"
  mv -f "$work/actions" "$work/told"
}
