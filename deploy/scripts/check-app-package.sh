#!/usr/bin/env bash
# Makes the packages that apps and backends take, and uses them as these do: by URL and version.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<'U'
Usage: deploy/scripts/check-app-package.sh [--no-backend] [--help]

Makes the repositories of make-packages.sh and builds what depends on them by file:// URL and version:

  an app       tools-version 6.1, PushClient, with the flag that Xcode gives to packages (-suppress-warnings). It resolves one package.
  a backend    PushAPI, beside Hummingbird and the packages that Vapor's manifest asks for (not Vapor itself, which CI cannot fetch).
               Everything resolves; a program with PushAPI is built.
  the example  Shared/PushClient/Example, if it is there: built if it has a manifest, otherwise only parsed

It follows every relative link of the packages' pages. Then it compares the package with history with the one of these files, where this is
a whole clone without changes.

  --no-backend   leave out the backend's build, which takes most of the time
U
}
build_backend=1
while [ $# -gt 0 ]; do
    case $1 in
        --no-backend) build_backend= ;;
        -h | --help) usage; exit 0 ;;
        *) usage >&2; fail "unknown option '$1'." ;;
    esac
    shift
done

begin_run app-package
require_swift
repositories=$work/repositories
"$root/deploy/scripts/make-packages.sh" --snapshot "$repositories" || fail "the packages cannot be made (above)."
version=$(git -C "$repositories/push-client" tag)

# begin_consumer NAME: the folder of a package that depends on ours. Its manifest comes from standard input.
begin_consumer() {
    folder=$work/$1
    mkdir -p "$folder"
    cat >"$folder/Package.swift"
}

# resolved: the packages that SwiftPM fetched for the consumer, with their versions.
resolved() {
    python3 -c 'import json, sys
for pin in json.load(open(sys.argv[1]))["pins"]: print(pin["identity"], pin["state"].get("version", ""))' "$folder/Package.resolved"
}

resolve() {
    foreground swift package --package-path "$folder" resolve >"$work/log" 2>&1 ||
        { cat "$work/log" >&2; fail "SwiftPM cannot resolve $1 (above)."; }
}

build_consumer() {
    local words=$1
    shift
    foreground swift build --package-path "$folder" "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "$words does not build (above)."; }
}

# --- no setting that a package may not have ---------------------------------------------------------------------------

for name in push-client push-api; do
    swift package --package-path "$repositories/$name" dump-package >"$work/manifest.json" ||
        fail "the manifest of $name cannot be read (above)."
    # Xcode and SwiftPM's newer build system refuse a package that makes warnings errors; SwiftPM refuses unsafe flags in a dependency.
    python3 - "$work/manifest.json" <<'P' || fail "the manifest of $name has a setting that a dependency may not have (above)."
import json, sys
kinds = {kind for target in json.load(open(sys.argv[1]))["targets"] for setting in target["settings"] for kind in setting["kind"]}
sys.exit(f"settings: {kinds}" if kinds - {"enableUpcomingFeature"} else 0)
P
done
grep -qF "$(grep -m 1 '^    platforms: ' "$root/Package.swift")" "$root/deploy/packages/push-client/Package.swift" ||
    fail "deploy/packages/push-client/Package.swift and Package.swift name different platforms; write the same."
# A range begins at the version that the platform itself is built with, so that a build of this commit has tried it.
while read -r package from; do
    grep -qE "/$package(\.git)?\", exact: \"$from\"" "$root/Package.swift" ||
        fail "deploy/packages/push-api/Package.swift takes $package from $from, and Package.swift pins another version; write the same."
done < <(sed -nE 's|.*github.com/[^/]+/([^".]+)(\.git)?", from: "([^"]+)".*|\1 \3|p' "$root/deploy/packages/push-api/Package.swift")

# --- links ------------------------------------------------------------------------------------------------------------

python3 - "$repositories" <<'P' || fail "a page of a package has a link to a file that is not in it (above); mend own_links in make-packages.sh."
import pathlib, re, sys
lost = [
    f"{page}: {link}"
    for page in sorted(pathlib.Path(sys.argv[1]).rglob("*.md"))
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    if not re.match(r"[a-z]+:|#", link) and not (page.parent / link.split("#")[0]).exists()
]
sys.exit("\n".join(lost) or 0)
P

# --- an app -----------------------------------------------------------------------------------------------------------

step "An app with PushClient $version"
begin_consumer app <<P
// swift-tools-version: 6.1
import PackageDescription

let package = Package(
    name: "app", platforms: [.iOS(.v16), .macOS(.v13)],
    dependencies: [.package(url: "file://$repositories/push-client", exact: "$version")],
    targets: [.executableTarget(name: "App", dependencies: [.product(name: "PushClient", package: "push-client")])])
P
mkdir -p "$folder/Sources/App"
cat >"$folder/Sources/App/main.swift" <<'S'
import Foundation
import PushClient

print(PushToken(Data([1, 171]), purpose: .alert, environment: .sandbox).hex)
S
resolve "the app"
[ "$(resolved)" = "push-client $version" ] || fail "an app must resolve push-client alone, and it resolves: $(resolved | tr '\n' ';')"
build_consumer "the app" -Xswiftc -suppress-warnings
products=$(swift build --package-path "$folder" --show-bin-path)
printed=$("$products/App")
[ "$printed" = 01ab ] || fail "the app prints '$printed' instead of a token's hex digits, 01ab."
manifest=$(find "$products/" -path '*push-client_PushClient*' -name PrivacyInfo.xcprivacy)
python3 -c 'import plistlib, sys
plistlib.load(open(sys.argv[1], "rb"))["NSPrivacyAccessedAPITypes"]' "$manifest" ||
    fail "the app's build holds no readable privacy manifest (above)."
note "one package, and the app runs; the privacy manifest is among its resources"

# --- a backend --------------------------------------------------------------------------------------------------------

step "A backend with PushAPI $version, beside Hummingbird and what Vapor asks for"
# What the manifest of Vapor 4 asks for (its main branch of 2026-05), without its own packages, which are not here: async-kit, console-kit,
# multipart-kit, routing-kit, websocket-kit.
mkdir -p "$work/vapor-requirements/Sources/VaporRequirements"
echo >"$work/vapor-requirements/Sources/VaporRequirements/Nothing.swift"
cat >"$work/vapor-requirements/Package.swift" <<'P'
// swift-tools-version:6.0
import PackageDescription

let package = Package(
    name: "vapor-requirements", platforms: [.macOS(.v10_15)],
    products: [.library(name: "VaporRequirements", targets: ["VaporRequirements"])],
    dependencies: [
        .package(url: "https://github.com/swift-server/async-http-client.git", from: "1.24.0"),
        .package(url: "https://github.com/apple/swift-crypto.git", "1.0.0" ..< "5.0.0"),
        .package(url: "https://github.com/apple/swift-nio.git", from: "2.81.0"),
        .package(url: "https://github.com/apple/swift-nio-ssl.git", from: "2.34.0"),
        .package(url: "https://github.com/apple/swift-nio-http2.git", from: "1.28.0"),
        .package(url: "https://github.com/apple/swift-nio-extras.git", from: "1.24.0"),
        .package(url: "https://github.com/apple/swift-log.git", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-metrics.git", from: "2.5.0"),
        .package(url: "https://github.com/apple/swift-distributed-tracing.git", from: "1.1.0"),
        .package(url: "https://github.com/apple/swift-service-context.git", from: "1.0.0"),
        .package(url: "https://github.com/apple/swift-algorithms.git", from: "1.0.0"),
        .package(url: "https://github.com/apple/swift-atomics.git", from: "1.1.0"),
        .package(url: "https://github.com/apple/swift-certificates.git", from: "1.14.0"),
        .package(url: "https://github.com/apple/swift-asn1.git", from: "1.0.0"),
    ],
    targets: [
        .target(
            name: "VaporRequirements",
            dependencies: [
                .product(name: "AsyncHTTPClient", package: "async-http-client"), .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "NIO", package: "swift-nio"), .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "NIOHTTP2", package: "swift-nio-http2"), .product(name: "NIOExtras", package: "swift-nio-extras"),
                .product(name: "Logging", package: "swift-log"), .product(name: "Metrics", package: "swift-metrics"),
                .product(name: "Tracing", package: "swift-distributed-tracing"),
                .product(name: "ServiceContextModule", package: "swift-service-context"),
                .product(name: "Algorithms", package: "swift-algorithms"), .product(name: "Atomics", package: "swift-atomics"),
                .product(name: "X509", package: "swift-certificates"), .product(name: "SwiftASN1", package: "swift-asn1"),
            ])
    ])
P
hummingbird=$(sed -nE 's|.*/hummingbird", exact: "([^"]+)".*|\1|p' "$root/Package.swift")
begin_consumer backend <<P
// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "backend", platforms: [.macOS(.v26)],
    dependencies: [
        .package(url: "file://$repositories/push-api", exact: "$version"),
        .package(url: "https://github.com/hummingbird-project/hummingbird.git", from: "$hummingbird"),
        .package(path: "../vapor-requirements"),
    ],
    targets: [
        .executableTarget(name: "Backend", dependencies: [.product(name: "PushAPI", package: "push-api")]),
        .target(
            name: "Beside",
            dependencies: [
                .product(name: "Hummingbird", package: "hummingbird"), .product(name: "VaporRequirements", package: "vapor-requirements"),
            ]),
    ])
P
mkdir -p "$folder/Sources/Backend" "$folder/Sources/Beside"
echo >"$folder/Sources/Beside/Nothing.swift"
cat >"$folder/Sources/Backend/main.swift" <<'S'
import PushAPI

let shop = PushAPI(baseURL: "http://127.0.0.1:9", key: "psh_test", deadline: .zero).app("shop")
print(shop.slug, shop.api.baseURL)
S
resolve "the backend"
packages=$(resolved)
grep -q '^hummingbird ' <<<"$packages" || fail "the backend resolves no Hummingbird: ${packages//$'\n'/; }"
note "$(wc -l <<<"$packages") packages resolve"
if [ -n "$build_backend" ]; then
    began=$SECONDS
    # It runs once, and needs no symbols and no index.
    build_consumer "the backend" --product Backend -Xswiftc -gnone -Xcc -g0 --disable-index-store
    printed=$("$(swift build --package-path "$folder" --show-bin-path)/Backend")
    [ "$printed" = "shop http://127.0.0.1:9" ] || fail "the backend prints '$printed'."
    note "the backend runs; built in $((SECONDS - began)) s"
fi

# --- the example ------------------------------------------------------------------------------------------------------

example=$repositories/push-client/Example
if [ -f "$example/Package.swift" ]; then
    step "The example"
    folder=$example
    build_consumer "the example"
elif [ -d "$example" ]; then
    step "The example's sources"
    # Its frameworks are Apple's. check-adaptors.sh checks its types.
    while IFS= read -r -d '' file; do
        swiftc -frontend -parse "$file" >"$work/log" 2>&1 ||
            { cat "$work/log" >&2; fail "${file#"$example/"} of the example does not parse (above)."; }
    done < <(find "$example" -name '*.swift' -print0)
    note "they parse"
fi

# --- the history ------------------------------------------------------------------------------------------------------

paths=(deploy/packages Shared/PushClient Shared/PushAPI Shared/StrictJSON docs/guides/app-side.md docs/guides/swift-backend.md)
if [ "$(git -C "$root" rev-parse --is-shallow-repository 2>/dev/null)" = false ] &&
    [ -z "$(git -C "$root" status --porcelain -- "${paths[@]}")" ]; then
    "$root/deploy/scripts/make-packages.sh" "$work/history" || fail "the packages cannot be made with their history (above)."
    for name in push-client push-api; do
        [ "$(git -C "$work/history/$name" rev-parse "$version^{tree}")" = "$(git -C "$repositories/$name" rev-parse "$version^{tree}")" ] ||
            fail "the last commit of $name with history does not hold the files that are here."
    done
else
    note "no whole clone without changes: nothing to make the history of"
fi
