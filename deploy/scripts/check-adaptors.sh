#!/usr/bin/env bash
# Type-checks PushClient and its example as Apple's platforms would compile them, against stand-ins for Apple's frameworks.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'U'
Usage: deploy/scripts/check-adaptors.sh [--help]

Type-checks Shared/PushClient in Swift 6 mode, for each of Apple's platforms at its oldest supported version, and fails on a warning. The compiler
gets Apple's own targets, so it answers every condition and checks availability as on a Mac. Apple's frameworks do not exist on Linux:
Tests/AppleStandIns declares the part of them that PushClient and its example call. Then it type-checks for iOS:

  the example's three modules    in Swift 6 mode, and with the settings of a new project of Xcode 26
  PushClient and the example     as Swift 6.1 sees them: the branches that it takes, and completion handlers that are not '@Sendable'

It looks for words that Swift 6.1 does not know, and for each Swift example of docs/guides/app-side.md in the example's files. Nothing is
linked and nothing runs.
U
}
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) usage; exit 0 ;;
        *) usage >&2; fail "unknown option '$1'." ;;
    esac
done

# Those of the target in Package.swift.
settings=(-warnings-as-errors)
for feature in ExistentialAny InternalImportsByDefault MemberImportVisibility; do
    settings+=(-enable-upcoming-feature "$feature")
done

begin_run adaptors
require_swift

# The toolchain's own modules are compiled for Linux alone. A module holds its target as plain text. It also holds the availability of its
# declarations on Apple's platforms: the standard library and most of Foundation (FoundationEssentials) state it. So a copy with one of
# Apple's targets, of the same length, is the same module for that target. Foundation's other declarations have no availability here.
host=$(swiftc -print-target-info | sed -n 's/.*"moduleTriple": *"\(.*\)".*/\1/p' | head -n 1)
resources=$(swiftc -print-target-info | sed -n 's/.*"runtimeResourcePath": *"\(.*\)".*/\1/p' | head -n 1)
[ -d "$resources/linux/Swift.swiftmodule" ] || fail "the toolchain has no standard library in $resources/linux; run this with Swift on Linux."

# copy_modules FOLDER SYSTEM [ENVIRONMENT]: the toolchain's modules as modules of that platform's first version, in FOLDER.
copy_modules() {
    local version=1 target module name
    [ "$2" != macosx ] || version=11 # before 11 a name of macOS counts in 10.x
    target="arm64-apple-$2$version${3-}"
    while [ "${#target}" -lt "${#host}" ]; do version=0$version target="arm64-apple-$2$version${3-}"; done
    for module in "$resources"/linux/*.swiftmodule/"$host".swiftmodule; do
        name=$(basename "$(dirname "$module")")
        LC_ALL=C sed "s/$host/$target/g" "$module" >"$1/$name"
    done
    # The C library as Foundation's inlined code calls it.
    printf '#include <string.h>\n#include <stdlib.h>\n#include <math.h>\n' >"$1/SwiftGlibc.h"
    printf 'module SwiftGlibc [system] { header "SwiftGlibc.h" export * }\n' >"$1/module.modulemap"
    # Of an SDK the compiler reads this file alone. It says which version of visionOS has what a version of iOS has (Apple's pages of
    # UNUserNotificationCenter.setBadgeCount and of OSAllocatedUnfairLockFlags name both).
    printf '{ "Version": "26.0", "MaximumDeploymentTarget": "26.99", "VersionMap": { "iOS_visionOS": { "16.0": "1.0", "18.0": "2.0" } } }\n' \
        >"$1/SDKSettings.json"
}

# compile FOLDER TARGET ARGUMENT…: the compiler for TARGET, with the modules in FOLDER. URLSession is in a module of its own on Linux, and
# a stand-in has what it lacks there.
compile() {
    local folder=$1 target=$2 foundation=(-import-module FoundationNetworking)
    shift 2
    [ ! -e "$folder/FoundationOfApple.swiftmodule" ] || foundation+=(-import-module FoundationOfApple)
    foreground swiftc -frontend -target "$target" -clang-target "$host" -disable-objc-interop -sdk "$folder" -resource-dir "$resources" \
        -Xcc -idirafter -Xcc "/usr/include/${host%%-*}-linux-gnu" -Xcc -idirafter -Xcc /usr/include -module-cache-path "$work/cache" \
        -I "$folder" -I "$resources" -swift-version 6 -parse-as-library "${foundation[@]}" "$@" \
        >"$work/output" 2>&1
}

# check_platform NAME TARGET MODULE…: PushClient for TARGET, whose version is the oldest supported one, with these frameworks to import
# beside those of all platforms.
check_platform() {
    local name=$1 target=$2 folder="$work/$1" system module
    shift 2
    mkdir "$folder"
    system=${target#arm64-apple-} system=${system%%[0-9]*}
    case $target in
        *-macabi) copy_modules "$folder" "$system" -macabi ;;
        *) copy_modules "$folder" "$system" ;;
    esac
    step "Type-checking PushClient for $name ($target)"
    for module in FoundationOfApple os CryptoKit Network Security UserNotifications ActivityKit "$@"; do
        # With library evolution, as the SDK's modules have it, so that a switch over an enumeration needs '@unknown default'.
        compile "$folder" "$target" -emit-module -o "$folder/$module.swiftmodule" -module-name "$module" -enable-library-evolution \
            -enable-upcoming-feature InternalImportsByDefault "$root/Tests/AppleStandIns/$module.swift" ||
            { cat "$work/output" >&2; fail "the stand-in Tests/AppleStandIns/$module.swift does not compile for $name (above)."; }
    done
    # Down to SIL, where the compiler looks for data races.
    compile "$folder" "$target" -emit-sil -o "$work/sil" -emit-module-path "$folder/PushClient.swiftmodule" -module-name PushClient "${settings[@]}" \
        "${sources[@]}" ||
        { cat "$work/output" >&2; fail "PushClient does not compile against the stand-ins for $name (above): mend it, or a stand-in that is wrong."; }
    note "${#sources[@]} files, no warning"
}

mapfile -t sources < <(find "$root/Shared/PushClient" -name '*.swift' -not -path '*/Example/*' | sort)
# A module can be there where its declarations are not available: ActivityKit and WidgetKit on Mac Catalyst, AppKit on Mac Catalyst, UIKit on watchOS.
check_platform iOS arm64-apple-ios16.0 UIKit SwiftUI CoreLocation PushKit WidgetKit
check_platform MacCatalyst arm64-apple-ios16.0-macabi UIKit AppKit PushKit WidgetKit
check_platform macOS arm64-apple-macosx13.0 AppKit PushKit WidgetKit
check_platform visionOS arm64-apple-xros1.0 UIKit PushKit WidgetKit
check_platform watchOS arm64-apple-watchos9.0 UIKit WatchKit PushKit WidgetKit
check_platform tvOS arm64-apple-tvos16.0 UIKit

# example FOLDER NAME FILE…: a module of the example, for the oldest iOS that has everything in it, with the settings in $mode.
mode=()
example() {
    local folder=$1 name=$2
    shift 2
    compile "$folder" arm64-apple-ios17.2 -emit-sil -o "$work/sil" -module-name "$name" -warnings-as-errors \
        -plugin-path "$resources/host/plugins" "${mode[@]}" "$@" ||
        { cat "$work/output" >&2; fail "the module $name of Shared/PushClient/Example does not compile (above)."; }
    note "$name: $# files, no warning"
}

step "Type-checking Shared/PushClient/Example in Swift 6 mode"
shop=$root/Shared/PushClient/Example
example "$work/iOS" ShopApp "$shop"/App/*.swift "$shop"/Both/*.swift
example "$work/iOS" ShopService "$shop"/Service/*.swift "$shop/Both/Shop.swift"
example "$work/iOS" ShopWidgets "$shop"/Widget/*.swift "$shop/Both/Ride.swift"

# Xcode 26 gives a new app the main actor as its isolation. The guide says that the extensions have none.
step "Type-checking Shared/PushClient/Example as a new project of Xcode 26 does"
new=(-swift-version 5)
for feature in MemberImportVisibility InferIsolatedConformances NonisolatedNonsendingByDefault; do
    new+=(-enable-upcoming-feature "$feature")
done
mode=("${new[@]}" -default-isolation MainActor)
example "$work/iOS" ShopApp "$shop"/App/*.swift "$shop"/Both/*.swift
mode=("${new[@]}")
example "$work/iOS" ShopService "$shop"/Service/*.swift "$shop/Both/Shop.swift"
example "$work/iOS" ShopWidgets "$shop"/Widget/*.swift "$shop/Both/Ride.swift"
mode=()

# The compiler here is newer than 6.1. So a copy has the branches that 6.1 takes, and these stand-ins are as 6.1 imports the headers:
# without SE-0463, which makes completion handlers `@Sendable`. A stand-in in Swift 5 mode is like a header: it promises nothing about
# concurrency.
step "Type-checking PushClient and its example as Swift 6.1 sees iOS"
older=$work/older
mkdir "$older"
copy_modules "$older" ios
cp "$work/iOS"/{FoundationOfApple,os,CryptoKit,Network,Security,ActivityKit,UIKit,SwiftUI,CoreLocation,WidgetKit}.swiftmodule "$older"
for module in UserNotifications PushKit; do
    sed 's/@escaping @Sendable/@escaping/' "$root/Tests/AppleStandIns/$module.swift" >"$older/$module.swift"
    compile "$older" arm64-apple-ios16.0 -swift-version 5 -emit-module -o "$older/$module.swiftmodule" -module-name "$module" \
        -enable-library-evolution -enable-upcoming-feature InternalImportsByDefault "$older/$module.swift" ||
        { cat "$work/output" >&2; fail "the stand-in Tests/AppleStandIns/$module.swift does not compile without '@Sendable' (above)."; }
done
while IFS= read -r -d '' file; do
    copy=$older/${file#"$root/"}
    mkdir -p "$(dirname "$copy")"
    sed 's/compiler(>=6\.2)/false/g' "$file" >"$copy"
done < <(find "$root/Shared/PushClient" -name '*.swift' -print0)
mapfile -t copies < <(find "$older/Shared/PushClient" -name '*.swift' -not -path '*/Example/*' | sort)
compile "$older" arm64-apple-ios16.0 -emit-sil -o "$work/sil" -emit-module-path "$older/PushClient.swiftmodule" -module-name PushClient \
    "${settings[@]}" "${copies[@]}" ||
    { cat "$work/output" >&2; fail "PushClient does not compile as Swift 6.1 sees iOS (above)."; }
note "${#copies[@]} files, no warning"
copied=$older/Shared/PushClient/Example
example "$older" ShopApp "$copied"/App/*.swift "$copied"/Both/*.swift
example "$older" ShopService "$copied"/Service/*.swift "$copied/Both/Shop.swift"
example "$older" ShopWidgets "$copied"/Widget/*.swift "$copied/Both/Ride.swift"

step "Looking for words that Swift 6.1 does not know"
# The branches of Swift 6.2 are left out, whatever is nested in them. A comment may name a word.
words=$(while IFS= read -r -d '' file; do
    awk -v name="${file#"$root/"}" '
        /^[ \t]*#if/ { depth++; if (!inside && /compiler\(>=6\.2\)/) inside = depth }
        /^[ \t]*#else/ { if (inside == depth) inside = 0 }
        /^[ \t]*#endif/ { if (inside == depth) inside = 0; depth-- }
        !inside { line = $0; sub(/\/\/.*/, "", line) }
        !inside && (line ~ /(^|[^A-Za-z_])unsafe[ \t]+[A-Za-z_(&]/ ||
            line ~ /@concurrent|nonisolated\(nonsending\)|@(un)?safe([^A-Za-z_]|$)/) {
            print name ":" FNR ": " $0
        }' "$file"
done < <(find "$root/Shared/PushClient" -name '*.swift' -print0))
[ -z "$words" ] || { printf '%s\n' "$words" >&2; fail "Swift 6.1 does not know these words (above): put them into '#if compiler(>=6.2)'."; }
note "none"

page=docs/guides/app-side.md
step "Comparing the examples of $page with it"
# Each line without its indentation, so that a part of a type may stand alone on a page.
plain() { sed 's/^ *//' "$@"; }
sources=$(for file in "$shop"/*/*.swift; do plain "$file"; done)$'\n'
blocks=0 block='' inside=
while IFS= read -r line; do
    case $inside$line in
        '```swift') inside=1 block='' ;;
        '1```')
            inside='' blocks=$((blocks + 1))
            [[ $sources == *"$block"* ]] || fail "$page: this example is not in Shared/PushClient/Example: $block"
            ;;
        1*) block+=$line$'\n' ;;
    esac
done < <(plain "$root/$page")
[ "$blocks" -gt 0 ] || fail "$page holds no Swift example."
note "$blocks examples"
