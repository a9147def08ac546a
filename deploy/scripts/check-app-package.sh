#!/usr/bin/env bash
# Builds an app that depends on PushClient alone, and sees that no other package comes with it.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'U'
Usage: deploy/scripts/check-app-package.sh [--help]

Makes a package of an app that depends on this one with 'traits: []', as Shared/PushClient/README.md says. Fails if SwiftPM resolves any further
package for it, or if the app does not build and run on Linux. There PushClient lacks sealed contents then: they need swift-crypto.
U
}
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) usage; exit 0 ;;
        *) usage >&2; fail "unknown option '$1'." ;;
    esac
done

begin_run app-package
require_swift
app=$work/app
mkdir -p "$app/Sources/App"
cat >"$app/Package.swift" <<P
// swift-tools-version: 6.1
import PackageDescription

let package = Package(
    name: "app", platforms: [.iOS(.v16), .macOS(.v13)],
    dependencies: [.package(name: "push", path: "$root", traits: [])],
    targets: [.executableTarget(name: "App", dependencies: [.product(name: "PushClient", package: "push")])])
P
cat >"$app/Sources/App/main.swift" <<'S'
import Foundation
import PushClient

print(PushToken(Data([1, 171]), purpose: .alert, environment: .sandbox).hex)
S

step "Resolving and building an app that depends on PushClient alone"
packages=$(cd "$app" && swift package show-dependencies --format flatlist 2>"$work/log") || { cat "$work/log" >&2; fail "SwiftPM cannot resolve the app (above)."; }
[ "$(wc -l <<<"$packages")" = 1 ] ||
    fail "an app with 'traits: []' must resolve this package alone, and it resolves: ${packages//$'\n'/ }. In Package.swift, give each product its trait."
foreground swift build --package-path "$app" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "the app does not build (above)."; }
printed=$("$(swift build --package-path "$app" --show-bin-path)/App")
[ "$printed" = 01ab ] || fail "the app prints '$printed' instead of a token's hex digits, 01ab."
note "one package, and the app runs"
