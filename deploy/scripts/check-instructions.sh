#!/usr/bin/env bash
# Counts the instructions that a delivery costs, and refuses a change of them that no commit explains. Time varies with the machine's other work,
# instructions do not.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'U'
Usage: deploy/scripts/check-instructions.sh [--update] [--if-built] [--json FILE] [--help]

Runs Tests/Benchmarks/InstructionCount (release) under valgrind, and compares its figures with Tests/Benchmarks/instructions.json. It fails

  * if a figure differs by more than 3 % from the one in the file, in either direction;
  * if the newest commit that changed the file does not say why, in a line of its body that begins with "Instructions: ".

  --update     write the figures of this run to the file, for a commit with such a line
  --if-built   do nothing where there is no release build (deploy/run --release makes one)
  --json FILE  also write the JSON object of the last line to this file
U
}

update= if_built= json=
while [ $# -gt 0 ]; do
    case $1 in
        --update) update=1 ;;
        --if-built) if_built=1 ;;
        --json) [ $# -gt 1 ] || fail "--json needs a file."; json=$2; shift ;;
        -h | --help) usage; exit 0 ;;
        *) usage >&2; fail "unknown option '$1'." ;;
    esac
    shift
done

tolerance=3 # percent
file=Tests/Benchmarks/instructions.json
machine=$(uname -m)

require_swift
programs=$(cd "$root" && swift build -c release --show-bin-path)
step "Counting the instructions of a delivery"
if [ -n "$if_built" ] && [ ! -x "$programs/dispatcher" ]; then
    note "left out, because there is no release build: deploy/run --release makes one"
    exit 0
fi
begin_run instructions
require_packages "${library_packages[@]}" valgrind binutils
build "the program that is counted (release)" -c release -- InstructionCount
# Valgrind 3.19 cannot read this compiler's debug information (DWARF 5).
strip --strip-debug -o "$work/InstructionCount" "$programs/InstructionCount"

failures=0
complain() { printf '%s    %s%s\n' "$red" "$*" "$plain" >&2; failures=$((failures + 1)); }

# count PART: sets $counted to the instructions of a delivery; complains and returns 1 if the run failed. Hashes have a fixed seed. Where the C library has a variant of a function for each kind
# of processor, every processor gets the oldest one.
count() {
    local log="$work/$1.log" deliveries instructions
    foreground env -i PATH="$PATH" SWIFT_DETERMINISTIC_HASHING=1 \
        GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-AVX,-AVX_Fast_Unaligned_Load,-ERMS,-FSRM \
        valgrind --tool=callgrind --callgrind-out-file="$work/$1.callgrind" --toggle-collect='*counted*' "$work/InstructionCount" "$1" >"$log" 2>&1 \
        || { tail -n 20 "$log" >&2; complain "the run of $1 failed (its last lines are above)."; return 1; }
    deliveries=$(sed -nE 's/^([0-9]+)$/\1/p' "$log")
    instructions=$(sed -nE 's/.* Collected : ([0-9]+).*/\1/p' "$log")
    [ "${deliveries:-0}" -gt 0 ] && [ "${instructions:-0}" -gt 0 ] || { tail -n 20 "$log" >&2; complain "the run of $1 counted nothing (its last lines are above)."; return 1; }
    counted=$((instructions / deliveries))
}

# The lines of the file with figures of this kind of processor, or of the others.
figures() { [ ! -e "$root/$file" ] || grep "$@" "\"machine\": \"$machine\"" "$root/$file" | grep '"part"' | sed 's/,$//' || :; }

commit=$(git -C "$root" describe --always --dirty 2>/dev/null) || commit=unknown
measures=() lines=()
for part in core-1 core-100 client; do
    count "$part" || continue
    kept=$(figures | sed -nE "s/.*\"part\": \"$part\",.*\"instructions\": ([0-9]+).*/\1/p")
    holds=true
    if [ -n "$kept" ]; then
        difference=$(awk -v new="$counted" -v old="$kept" 'BEGIN { printf "%+.2f", (new - old) * 100 / old }')
        note "$(printf '%-9s %6d instructions/delivery, %s %% from the %d in the file' "$part" "$counted" "$difference" "$kept")"
        awk -v difference="$difference" -v limit="$tolerance" 'BEGIN { exit (difference > limit || -difference > limit) }' || holds=false
    else
        note "$(printf '%-9s %6d instructions/delivery; the file has no figure of %s' "$part" "$counted" "$machine")"
    fi
    if [ "$holds" = false ] && [ -z "$update" ]; then
        complain "$part differs by $difference %, and $tolerance % are allowed: mend it, or run this script with --update and say why in the commit."
    fi
    ratio=null
    [ -z "$kept" ] || ratio=$(awk -v new="$counted" -v old="$kept" 'BEGIN { printf "%.4f", new / old }')
    measures+=("{\"name\":\"$part\",\"value\":$counted,\"unit\":\"instructions/delivery\",\"baseline\":\"instructions.json\",\"baseline_value\":${kept:-null},\"ratio\":$ratio,\"bar\":null,\"holds\":$holds}")
    lines+=("  {\"machine\": \"$machine\", \"part\": \"$part\", \"instructions\": $counted, \"date\": \"$(date -u +%F)\", \"commit\": \"$commit\"}")
done

if [ -n "$update" ] && [ "$failures" = 0 ]; then
    mapfile -t others < <(figures -v)
    printf '%s\n' "${others[@]+"${others[@]}"}" "${lines[@]}" | sed '/^$/d; $!s/$/,/' | { printf '[\n'; cat; printf ']\n'; } >"$work/instructions.json"
    cp "$work/instructions.json" "$root/$file"
    note "written to $file: commit it with a line that begins with \"Instructions: \" and says why the figures differ"
elif git -C "$root" diff --quiet HEAD -- "$file" 2>/dev/null; then
    newest=$(git -C "$root" log -1 --format=%H -- "$file")
    # The oldest commit of a shallow clone seems to change every file.
    if [ -n "$newest" ] && ! grep -qsx "$newest" "$(git -C "$root" rev-parse --path-format=absolute --git-path shallow)"; then
        git -C "$root" log -1 --format=%b "$newest" | grep -qE '^Instructions: .+' \
            || complain "commit ${newest:0:9} changed $file, and its body has no line that begins with \"Instructions: \" and says why."
    fi
fi
object=$(IFS=,; printf '{"bench":"instructions","measures":[%s]}' "${measures[*]}")
[ -z "$json" ] || printf '%s\n' "$object" >"$json"
printf '%s\n' "$object"
[ "$failures" = 0 ] || fail "a delivery does not cost what the newest commit of $file says, or was not counted (see above); valgrind's files are in $work."
