#!/usr/bin/env bash
# The programs with every deliberate fault of Tests/Chaos/NegativeControls compiled in: one build in .push/faulty, in which PUSH_DELIBERATE_FAULT=NAME
# switches one fault on. `faulty-build.sh --check` only sees whether every patch still applies; `--faults` prints their names.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
controls="$root/Tests/Chaos/NegativeControls"
die() { printf 'faulty-build: %s\n' "$1" >&2; exit 1; }

# In a folder that is no work tree, so that git looks at nothing but the files there.
apply() { (cd "$1" && GIT_CEILING_DIRECTORIES="$(dirname "$1")" git apply "${@:3}" "$2" 2>&1); }

# Each patch by itself: none needs another.
check() {
    local patch name said place status=0
    place=$(mktemp -d)
    for patch in "$controls"/*.patch; do
        name=$(basename "$patch" .patch)
        (cd "$root" && sed -n 's|^--- a/||p' "$patch" | xargs -d '\n' cp --parents -t "$place" 2>/dev/null) || :
        if ! said=$(apply "$place" "$patch" --check); then
            printf 'faulty-build: the patch %s does not apply any more: %s\n' "$name" "$(printf '%s' "$said" | head -n 1)" >&2
            status=1
        fi
        grep -qF "\"$name\"" "$controls/DeliberateFault.swift" || { printf 'faulty-build: DeliberateFault.swift knows no %s\n' "$name" >&2; status=1; }
    done
    rm -rf "$place"
    return "$status"
}

faults() { (cd "$controls" && printf '%s\n' *.patch | sed 's/\.patch$//'); }

# Only what differs is written, so that the compiler finds the rest as it left it.
copy_sources() {
    local from=$1 to=$2 file
    (cd "$from" && find . -type f | sort) >"$to.files"
    while IFS= read -r file; do
        cmp -s "$from/$file" "$to/$file" && continue
        mkdir -p "$to/$(dirname "$file")"
        cp "$from/$file" "$to/$file"
    done <"$to.files"
    (cd "$to" && find Shared Services Tests -type f 2>/dev/null | sed 's|^|./|' | sort) | comm -13 "$to.files" - | (cd "$to" && xargs -r -d '\n' rm --)
    rm "$to.files"
}

prepare() {
    local faulty="$root/.push/faulty" fresh patch said
    mkdir -p "$faulty"
    fresh=$(mktemp -d)
    trap "rm -rf '$fresh'" EXIT
    (cd "$root" && find Package.swift Shared Services Tests -type f -print0 | xargs -0 cp -p --parents -t "$fresh")
    cp "$controls/DeliberateFault.swift" "$fresh/Shared/PushModel/"
    # The versions that the honest programs are built with.
    [ ! -f "$root/Package.resolved" ] || cp -p "$root/Package.resolved" "$fresh/"
    for patch in "$controls"/*.patch; do
        said=$(apply "$fresh" "$patch") || die "the patch $(basename "$patch" .patch) does not apply beside the others: $(printf '%s' "$said" | head -n 1)"
    done
    copy_sources "$fresh" "$faulty"
    # What the first build has fetched need not be fetched again.
    if [ ! -d "$faulty/.build/checkouts" ] && [ -d "$root/.build/checkouts" ]; then
        mkdir -p "$faulty/.build"
        cp -a "$root/.build/checkouts" "$root/.build/repositories" "$root/.build/workspace-state.json" "$faulty/.build/" 2>/dev/null || :
    fi
    printf '%s\n' "$faulty"
}

case ${1-} in
    --check) check ;;
    --faults) faults ;;
    '') check && prepare ;;
    *) die "usage: faulty-build.sh [--check | --faults]" ;;
esac
