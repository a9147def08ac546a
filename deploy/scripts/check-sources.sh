#!/usr/bin/env bash
# The rules that the compiler does not check: formatting, where C and unsafe code may be, what stands at the top level, and the scripts' syntax.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
status=0
complain() { printf 'check-sources: %s\n' "$1" >&2; printf '%s\n' "$2" | sed 's/^/    /' >&2; status=1; }

sources=$(git ls-files -co --exclude-standard -- '*.swift' | grep -v '/Generated/')

printed=$(printf '%s\n' "$sources" | xargs -d '\n' swift format lint --strict --parallel 2>&1) || complain "formatting (mend with: swift format -i -p FILE)" "$printed"

# The formatter breaks neither comments nor literals, and passes over Package.swift.
limit=$(sed -nE 's/.*"lineLength": ([0-9]+).*/\1/p' .swift-format)
found=$(printf '%s\n' "$sources" | LC_ALL=C.UTF-8 xargs -d '\n' grep -nE "^.{$((limit + 1)),}" | cut -c1-200 || :)
[ -z "$found" ] || complain "a line is longer than the $limit columns of .swift-format" "$found"

wrappers='^Shared/(Postgres|RabbitMQ|HTTP2|OpenSSL|SystemIO)/'
found=$(printf '%s\n' "$sources" | grep -vE "$wrappers" | xargs -d '\n' grep -nE '^\s*(@\w+ )?((package|public|internal|private) )?import C(Postgres|RabbitMQ|NGHTTP2|OpenSSL|Linux)\b' || :)
[ -z "$found" ] || complain "a C module is imported outside its wrapper" "$found"

found=$(printf '%s\n' "$sources" | grep -vE "$wrappers|^Tests/" | xargs -d '\n' grep -nE '@unchecked Sendable|nonisolated\(unsafe\)|\btry!|\bfatalError\(|OpaquePointer' || :)
[ -z "$found" ] || complain "unsafe or trapping code outside the wrappers" "$found"

# Its target is not compiled with strict memory safety, which asks for a word that Swift 6.1 does not know.
found=$(grep -rnE 'Unsafe|Unmanaged|unsafeBitCast|unsafeDowncast' Shared/PushClient --include='*.swift' || :)
[ -z "$found" ] || complain "PushClient names an unsafe type or function" "$found"

# So a change of the device's date changes nothing but the stamps of receipts.
found=$(grep -rnE '\bDate\(\)|\bDate\.now|timeIntervalSinceNow|Task\.sleep|(Continuous|Suspending)Clock|DispatchTime' Shared/PushClient --include='*.swift' --exclude-dir=Example | grep -v '^Shared/PushClient/Support/PushClock.swift:' || :)
[ -z "$found" ] || complain "PushClient asks another clock than its PushClock for the time" "$found"

# Apple, "Describing use of required reason API": without its reason in the app's privacy manifest, App Store Connect refuses the app. File
# timestamps are in PushClient's.
found=$(grep -rnwE 'UserDefaults|AppStorage|systemUptime|mach_absolute_time|activeInputModes|systemFreeSize|systemSize|statv?fs|fstatv?fs|volume(Available|Total)Capacity\w*' Shared/PushClient --include='*.swift' --exclude-dir=Example || :)
[ -z "$found" ] || complain "PushClient uses an API whose reason Shared/PushClient/PrivacyInfo.xcprivacy does not give" "$found"

found=$(grep -rn 'FoundationNetworking' Services Shared --include='*.swift' || :)
[ -z "$found" ] || complain "a program would need libcurl, which its image does not have" "$found"

services='TokenService Dispatcher APNsSimulator PushCtl'
for service in $services; do
    for other in $services; do
        [ "$service" != "$other" ] || continue
        found=$(grep -rnE "^\s*import $other\b" "Services/$service" --include='*.swift' || :)
        [ -z "$found" ] || complain "services do not import each other" "$found"
    done
done

found=$(git ls-files -co --exclude-standard | cut -d/ -f1 | sort -u | grep -vE '^(\..*|Package\.swift|Services|Shared|Tests|deploy|docs|docker-compose\.yml|README\.md)$' || :)
[ -z "$found" ] || complain "the top level holds what the layout does not have" "$found"

found=$(printf '%s\n' "$sources" | grep -E '^(Shared|Services)/' | xargs -d '\n' awk 'FNR == 1 { depth = inside = 0 }
    /^ *#if / { depth++; if ($2 == "PUSH_DELIBERATE_FAULTS" && NF == 2) inside = depth }
    /^ *#else/ && depth == inside { inside = 0 }
    /^ *#endif/ { if (depth == inside) inside = 0; depth-- }
    /DeliberateFault/ && !inside { print FILENAME ":" FNR ": " $0 }')
[ -z "$found" ] || complain "a deliberate fault is compiled into every build: it belongs between #if PUSH_DELIBERATE_FAULTS and #endif" "$found"

python3 deploy/scripts/check-docs.py || status=1

for script in deploy/run deploy/test deploy/bench deploy/chaos deploy/containers deploy/fuzz deploy/scripts/*.sh .ci/run; do
    bash -n "$script" || status=1
done
[ "$status" = 0 ] && printf 'check-sources: formatting, imports, layout and scripts are in order\n'
exit "$status"
