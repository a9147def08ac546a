#!/usr/bin/env bash
# Checks the model of the protocol with spin: the promises hold in all of its states, and each planted mistake is found.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'U'
Usage: deploy/scripts/check-protocol.sh [--help]

Verifies Tests/Protocol/push.pml. Tests/Protocol/README.md says what that covers.
U
}
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) usage; exit 0 ;;
        *) usage >&2; fail "unknown option '$1'." ;;
    esac
done

begin_run protocol
require_packages spin gcc
model="$root/Tests/Protocol/push.pml"
failures=0
complain() { printf '%s    %s%s\n' "$red" "$*" "$plain" >&2; failures=$((failures + 1)); }

step "The model names functions that exist"
# An inline of the model is Type_function, or Type_function__use.
names=$(sed -nE 's/^inline ([A-Z][A-Za-z0-9]*)_([a-z][A-Za-z0-9]*)(__[a-z]+)?\(.*/\1 \2/p' "$model" | sort -u)
[ "$(wc -l <<<"$names")" -ge 30 ] || fail "found too few names of functions in $model; has its form changed?"
while read -r type function; do
    mapfile -t declarations < <(grep -rlE "\b(struct|class|enum|actor|extension) $type\b" "$root/Services" "$root/Shared" --include='*.swift')
    [ ${#declarations[@]} != 0 ] && grep -qE "\bfunc $function\b" "${declarations[@]}" || complain "$type.$function is in the model and not in the sources: rename it in both."
done <<<"$names"
note "$(wc -l <<<"$names") functions"

# verify RUN EXPECTED WORDS [-DNAME[=VALUE]]…: in the background, two runs at a time, each below 2 GiB. EXPECTED is `holds`; or `ends`, where the
# model must have no cycle either; or the promise that must be broken.
order=() under_way=0
declare -A words expected
verify() {
    local run=$1 flags=(-O2 -DSAFETY) search=()
    expected[$run]=$2 words[$run]=$3
    shift 3
    case ${expected[$run]} in
        ends) flags=(-O2 -DNP -DNOFAIR) search=(-l) ;;
        promise_*) flags=(-O0 -DSAFETY) ;;
    esac
    if [ "$under_way" = 2 ]; then
        wait -n || :
        under_way=1
    fi
    mkdir "$work/$run"
    # States are kept whole, not as hashes: none is taken for another one. The reduction of orders has nothing to work on, because every step
    # reads what others write.
    start "$run" bash -c 'cd "$1" && spin -a "${@:5}" "$2" && gcc $3 -o pan pan.c && exec ./pan $4' - "$work/$run" "$model" \
        "${flags[*]} -w -DNOREDUCE -DNOBOUNDCHECK -DMEMLIM=1900" "-m100000 -w22 -n ${search[*]+"${search[*]}"}" "$@"
    under_way=$((under_way + 1))
    order+=("$run")
}

# Of the runs that were begun since the last report, in their order.
report() {
    local run log states seconds found
    wait
    under_way=0
    for run in "${order[@]}"; do
        log="$work/$run.log"
        states=$(sed -nE 's/^ *([0-9.e+]+) states, stored.*/\1/p' "$log")
        seconds=$(sed -nE 's/^pan: elapsed time ([0-9.e+-]+) seconds.*/\1/p' "$log")
        if [ -z "$states" ]; then
            tail -n 5 "$log" >&2
            complain "${words[$run]}: the verifier did not come to its end (its last lines are above)."
            continue
        fi
        found=$(sed -nE 's/^pan:[0-9]+: (.*)/\1/p' "$log" | sed -n 1p)
        note "$(printf '%-72s %9.0f states %5.1f s' "${words[$run]}" "$states" "$seconds")"
        case ${expected[$run]} in
            promise_*) [[ $found == "assertion violated ${expected[$run]} "* ]] || complain "it should break ${expected[$run]}, and the verifier says: ${found:-nothing is broken}." ;;
            *) grep -q 'errors: 0$' "$log" && ! grep -qE 'not completed|too small' "$log" || complain "${found:-not every state was seen: see $log}." ;;
        esac
    done
    order=()
}

step "The promises hold in every state"
verify faults holds "one fault of any kind" -DFAULTS=1
verify history holds "one fault, and what has happened is remembered" -DFAULTS=1 -DHISTORY
verify logouts holds "one fault and a logout" -DFAULTS=1 -DLOGOUTS=1
verify cancels holds "one fault and a cancellation" -DFAULTS=1 -DCANCELS=1
verify expiries holds "one fault and an expiry" -DFAULTS=1 -DEXPIRIES=1
verify replays holds "a replay" -DFAULTS=0 -DREPLAYS=1 -DLOGOUTS=1 -DCANCELS=1 -DEXPIRIES=1
report

step "Each planted mistake is found"
verify ACKNOWLEDGE_BEFORE_CONFIRM promise_1 "a job is acknowledged before its results are confirmed" -DFAULTS=1 -DACKNOWLEDGE_BEFORE_CONFIRM
verify ACKNOWLEDGE_BEFORE_APPLY promise_1 "an outcome event is acknowledged before it is applied" -DFAULTS=1 -DACKNOWLEDGE_BEFORE_APPLY
verify ANSWER_BEFORE_COMMIT promise_1 "202 is answered before the commit" -DFAULTS=1 -DANSWER_BEFORE_COMMIT
verify LOST_CONFIRM_IS_A_CONFIRM promise_1 "a confirmation that was lost counts as one" -DFAULTS=1 -DLOST_CONFIRM_IS_A_CONFIRM
verify SETTLE_TWICE promise_1 "an outcome that comes again is counted again" -DFAULTS=1 -DSETTLE_TWICE
verify RELAY_IGNORES_LEASES promise_2 "a relay takes what another process is publishing" -DFAULTS=1 -DRELAY_IGNORES_LEASES
verify STALE_JOB_IS_SENT promise_2 "a job is sent that the broker has taken back" -DFAULTS=1 -DSTALE_JOB_IS_SENT
verify NO_MARKER promise_3 "a dispatcher sends without having read its marker" -DFAULTS=1 -DLOGOUTS=1 -DNO_MARKER
verify MARKER_MAY_BE_OLD promise_3 "a marker that comes back late is believed" -DFAULTS=1 -DLOGOUTS=1 -DMARKER_MAY_BE_OLD
verify TAKE_BEFORE_THE_MARKER promise_3 "jobs are taken before the marker is read" -DFAULTS=1 -DLOGOUTS=1 -DTAKE_BEFORE_THE_MARKER
verify NO_HEARTBEAT promise_3 "a dispatcher at rest publishes no heartbeat" -DFAULTS=1 -DLOGOUTS=1 -DNO_HEARTBEAT
verify FENCE_ANSWERED_BEFORE_CONFIRM promise_3 "a logout is answered before its fence is confirmed" -DFAULTS=1 -DLOGOUTS=1 -DFENCE_ANSWERED_BEFORE_CONFIRM
verify FENCE_ASKED_AT_TAKE_ONLY promise_3 "fences are asked only when a job is taken" -DFAULTS=1 -DLOGOUTS=1 -DFENCE_ASKED_AT_TAKE_ONLY
verify CANCEL_ASKED_AT_TAKE_ONLY promise_6 "cancellations are asked only when a job is taken" -DFAULTS=1 -DCANCELS=1 -DCANCEL_ASKED_AT_TAKE_ONLY
verify EXPIRY_ASKED_AT_TAKE_ONLY promise_6 "the expiry is asked only when a job is taken" -DFAULTS=1 -DEXPIRIES=1 -DEXPIRY_ASKED_AT_TAKE_ONLY
report

step "What is interesting is reached"
while read -r place; do
    grep -qE "^reached $place\$" "$work"/*.log || complain "no state was seen in which this had happened: $place."
done < <(sed -nE 's/.*reached(_if)?\((.*, )?([a-z_]+)\).*/\3/p' "$model" | grep -v '^place$' | sort -u)
note "$(grep -hoE '^reached [a-z_]+' "$work"/*.log | sort -u | wc -l) places"

[ "$failures" = 0 ] || fail "$failures of the model's checks failed (see above)."
