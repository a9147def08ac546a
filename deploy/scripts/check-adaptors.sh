#!/usr/bin/env bash
# Type-checks PushClient as Apple's platforms would compile it, and the examples of its pages, against stand-ins for Apple's frameworks.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'U'
Usage: deploy/scripts/check-adaptors.sh [--help]

Type-checks Shared/PushClient in Swift 6 mode, once as for iOS and once as for macOS, and fails on a warning. Apple's frameworks do not exist on
Linux: Tests/AppleStandIns declares the part of them that PushClient calls. Then it type-checks every Swift example of PushClient's README and
guide, as one app. Nothing is linked and nothing runs.
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

# make_module NAME FOLDER: with library evolution, as the SDK's modules have it, so that a switch over an enumeration needs '@unknown default'.
make_module() {
    foreground swiftc -emit-module -enable-library-evolution -parse-as-library -swift-version 6 \
        -enable-upcoming-feature InternalImportsByDefault -module-name "$1" -emit-module-path "$2/$1.swiftmodule" -I "$2" \
        "$2/AppleStandIns/$1.swift" >"$work/output" 2>&1 ||
        { cat "$work/output" >&2; fail "the stand-in Tests/AppleStandIns/$1.swift does not compile (above)."; }
}

# check_platform NAME CONDITIONS MODULE…: PushClient where just these frameworks can be imported. CONDITIONS is a script of sed's, which answers the
# conditions that the compiler would answer as on Linux.
check_platform() {
    local name=$1 conditions=$2 folder="$work/$1" module
    shift 2
    mkdir "$folder"
    cp -r "$root/Shared/PushClient" "$root/Tests/AppleStandIns" "$folder"
    find "$folder" -name '*.swift' -exec sed -i "s/os(Linux)/false/; $conditions" {} +
    # On Linux URLSession is in a module of its own.
    find "$folder/PushClient" -name 'URLSession*.swift' -exec sed -i 's/^    public import Foundation$/&; public import FoundationNetworking/' {} +
    for module in os CryptoKit Network Security UserNotifications "$@"; do make_module "$module" "$folder"; done
    step "Type-checking PushClient as for $name (os, CryptoKit, Network, Security, UserNotifications, $*)"
    find "$folder/PushClient" -name '*.swift' | sort >"$folder/sources"
    # Down to SIL, where the compiler looks for data races.
    foreground swiftc -emit-sil -o "$work/sil" -emit-module-path "$folder/PushClient.swiftmodule" -whole-module-optimization -parse-as-library \
        -module-name PushClient "${settings[@]}" -I "$folder" "@$folder/sources" >"$work/output" 2>&1 ||
        { cat "$work/output" >&2; fail "PushClient does not compile against the stand-ins for $name (above): mend it, or a stand-in that is wrong."; }
    note "$(wc -l <"$folder/sources") files, no warning"
}

check_platform iOS 's/os(iOS)/true/; s/targetEnvironment(simulator)/true/' UIKit ActivityKit SwiftUI
check_platform macOS 's/os(iOS)/false/; s/targetEnvironment(simulator)/false/' AppKit

step "Type-checking the examples of Shared/PushClient/README.md and docs/guides/app-side.md"
examples=0
for page in Shared/PushClient/README.md docs/guides/app-side.md; do
    examples=$((examples + 1))
    # The lines between ```swift and ```; all others become empty, so that the compiler names the page's own lines.
    awk '/^```swift$/ { inside = 1; print ""; next } /^```$/ { inside = 0 } { print inside ? $0 : "" }' "$root/$page" >"$work/example-$examples.swift"
    grep -q . "$work/example-$examples.swift" || fail "$page holds no Swift example."
done
foreground swiftc -emit-sil -o "$work/sil" -whole-module-optimization -parse-as-library -module-name Shop -swift-version 6 -warnings-as-errors \
    -I "$work/iOS" "$work"/example-*.swift "$work/iOS/AppleStandIns/Example/Shop.swift" >"$work/output" 2>&1 ||
    { cat "$work/output" >&2; fail "an example does not compile (above; example-1 is the README, example-2 the guide)."; }
note "$examples pages, no warning"
