#!/usr/bin/env bash
# Type-checks PushClient as Apple's platforms would compile it, against stand-ins for Apple's frameworks.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'U'
Usage: deploy/scripts/check-adaptors.sh [--help]

Type-checks Shared/PushClient with its adaptors in Swift 6 mode, once as for iOS and once as for macOS, and fails on a warning. Apple's frameworks
do not exist on Linux: Tests/AppleStandIns declares the part of them that PushClient calls. Nothing is linked and nothing runs.
Not checked: Store/KeychainPushStore.swift, whose CoreFoundation types have no stand-in, and lines for one platform alone (#if os, #if !os).
U
}
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) usage; exit 0 ;;
        *) usage >&2; fail "unknown option '$1'." ;;
    esac
done

# Those of the target in Package.swift.
settings=(-swift-version 6 -warnings-as-errors -strict-memory-safety)
for feature in ExistentialAny InternalImportsByDefault MemberImportVisibility NonisolatedNonsendingByDefault; do
    settings+=(-enable-upcoming-feature "$feature")
done

begin_run adaptors
require_swift
stand_ins=$root/Tests/AppleStandIns
sources=()
while IFS= read -r file; do sources+=("$file"); done < <(find "$root/Shared/PushClient" -name '*.swift' | sort)
[ ${#sources[@]} -gt 0 ] || fail "Shared/PushClient holds no Swift file."

# make_module NAME FOLDER: with library evolution, as the SDK's modules have it, so that a switch over an enumeration needs '@unknown default'.
make_module() {
    foreground swiftc -emit-module -enable-library-evolution -parse-as-library -swift-version 6 \
        -enable-upcoming-feature InternalImportsByDefault -module-name "$1" -emit-module-path "$2/$1.swiftmodule" \
        "$stand_ins/$1.swift" >"$work/output" 2>&1 ||
        { cat "$work/output" >&2; fail "the stand-in Tests/AppleStandIns/$1.swift does not compile (above)."; }
}

# check_platform NAME MODULE…: PushClient where just these frameworks can be imported.
check_platform() {
    local name=$1 folder="$work/$1" module
    shift
    mkdir "$folder"
    for module in os CryptoKit Network UserNotifications "$@"; do make_module "$module" "$folder"; done
    step "Type-checking PushClient as for $name (os, CryptoKit, Network, UserNotifications, $*)"
    # Down to SIL, where the compiler looks for data races.
    foreground swiftc -emit-sil -o "$folder/PushClient.sil" -whole-module-optimization -parse-as-library -module-name PushClient \
        "${settings[@]}" -I "$folder" "${sources[@]}" >"$work/output" 2>&1 ||
        { cat "$work/output" >&2; fail "PushClient does not compile against the stand-ins for $name (above): mend it, or a stand-in that is wrong."; }
}

check_platform iOS UIKit ActivityKit
check_platform macOS AppKit
note "${#sources[@]} files, no warning"
