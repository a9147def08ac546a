# Sourced by deploy/chaos --controls. The programs with eight deliberate faults compiled in (DeliberateFault.swift), run once for each fault: the checker must find every one.
# First once with none switched on: what it finds then is wrong with the checker, the load or the platform, and the rest would prove nothing.

complain() { printf '    %s\n' "$1" >&2; }

# What shows a fault, and which of the checker's promises it breaks. control_plan NAME
control_plan() {
    case $1 in
        honest) shows=dispatcher-mid-send,token-service-cut-off,goaway-mid-send breaks= ;;
        acknowledge-first) shows=dispatcher-mid-send breaks='lost|stuck' ;;
        no-confirms) shows=token-service-cut-off breaks='lost|stuck' ;;
        gone-without-timestamp) shows=none breaks='wrongly retired' ;;
        no-fence) shows=none breaks='after logout' ;;
        unlocked-idempotency) shows=none breaks='two for one key' ;;
        activity-out-of-turn) shows=apns-slow breaks='wrong lock screens|Live Activities out of order' ;;
        activity-turn-lost) shows=none breaks='wrong lock screens' ;;
        resend-after-goaway) shows=goaway-mid-send breaks='unexplained duplicates' ;;
        *) fail "there is no plan for the deliberate fault '$1': write it into deploy/scripts/controls.sh." ;;
    esac
}

# build_faulty: sets $faulty to the folder with all programs, the faulty ones and the honest ones that have no fault.
build_faulty() {
    local built="$root/.build-faults/release"
    PUSH_DELIBERATE_FAULTS=1 build "token-service and dispatcher with their deliberate faults" -c release --scratch-path "$root/.build-faults" -- token-service dispatcher
    faulty="$work/faulty"
    mkdir -p "$faulty"
    ln -sf "$built/token-service" "$built/dispatcher" "$programs/apns-simulator" "$programs/pushctl" "$faulty/"
}

# broken_promises REPORT: their names, one on a line.
broken_promises() { sed -n 's/.*"measures":\[\(.*\)\].*/\1/p' "$1" | tr '{' '\n' | sed -n 's/"name":"\([^"]*\)".*"holds":false.*/\1/p'; }

# control NAME: one run with one fault. Prints one line; returns 1 where the checker does not find what it must.
control() {
    local name=$1 began=$SECONDS folder="$work/control-$1" status=0 found shows breaks fault=()
    control_plan "$name"
    # What is lost never comes to its end, and is not waited for in vain, but for as long as it might be on its way back from a hold: that excuses
    # it for a minute (StopBook). The honest run has all the time that the longest way round takes.
    [ "$name" = honest ] || fault=(--deliberate-fault "$name" --drain 80)
    mkdir -p "$folder" "$data/$name"
    cp "$run/admin.key" "$folder/"
    # The leftovers of this run, should it be interrupted.
    run="$folder"
    foreground "$programs/ChaosRun" --size control --seed "$seed" --only "$shows" --folder "$folder" --data "$data/$name" --credentials "$work/credentials" \
        --programs "$faulty" ${fault[@]+"${fault[@]}"} --commit "$commit" --call "deploy/chaos --controls --seed $seed" >"$folder/progress.log" 2>&1 ||
        { tail -n 20 "$folder/progress.log" >&2; fail "the run with $name did not come to its end; there is nothing to judge."; }
    foreground "$programs/ChaosChecker" "$folder" >"$folder/judgement.log" 2>&1 || status=$?
    [ "$status" -lt 2 ] || { tail -n 5 "$folder/judgement.log" >&2; fail "the checker could not judge the run with $name."; }
    found=$(broken_promises "$folder/report.json" | paste -sd, | sed 's/,/, /g')
    if [ "$name" = honest ]; then
        if [ "$status" = 0 ]; then
            note "$(printf '%-24s nothing is found, as it must be (%s s)' 'no fault' $((SECONDS - began)))"
        else
            cat "$folder/report.txt" >&2
            complain "with no fault switched on the checker finds: $found"
            return 1
        fi
    elif printf '%s\n' "$found" | sed 's/, /\n/g' | grep -xE "$breaks" >/dev/null; then
        note "$(printf '%-24s found: %s (%s s)' "$name" "$found" $((SECONDS - began)))"
    else
        complain "$name was NOT FOUND; it breaks ${breaks/|/ or }, and the checker says: ${found:-nothing is broken} (the ledgers are in $folder)"
        return 1
    fi
}

# run_controls: all of them; fails where one was not found. Needs $programs, $run with admin.key, $data, $seed and $commit of deploy/chaos.
run_controls() {
    local name missed=() began=$SECONDS faulty
    build_faulty
    step "Negative controls, seed $seed: the checker must find each deliberate fault"
    for name in honest $(sed -n 's/^ *case .* = "\(.*\)"$/\1/p' "$root/Shared/PushModel/DeliberateFault.swift"); do control "$name" || missed+=("$name"); done
    [ ${#missed[@]} = 0 ] || { keep=1; fail "the negative controls failed: ${missed[*]}."; }
    note "every deliberate fault was found, in $((SECONDS - began)) s"
}
