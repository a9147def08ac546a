#!/usr/bin/env bash
# Looks through a run's logs for what must never stand in one. Says where and what kind, never the secret itself.
set -euo pipefail

usage() {
    cat <<'U'
Usage: deploy/scripts/check-logs.sh FOLDER [--markers FILE] [--help]

Reads every *.log below FOLDER. Ends with 0 where nothing was found, 1 where something was, 2 where there was nothing to read.
Looks for device tokens, provider tokens (JWT), API keys with their secret, secrets of webhooks, private keys, payloads and passwords in URLs.

  --markers FILE   one text in each line that must not be in a log either: names of users, words of payloads, passwords of this run
U
}

folder= markers=
while [ $# -gt 0 ]; do
    case $1 in
        --markers) [ $# -gt 1 ] || { echo "check-logs: --markers needs a file." >&2; exit 2; }; markers=$2; shift ;;
        -h | --help) usage; exit 0 ;;
        -*) usage >&2; exit 2 ;;
        *) [ -z "$folder" ] || { usage >&2; exit 2; }; folder=$1 ;;
    esac
    shift
done
[ -n "$folder" ] || { usage >&2; exit 2; }
[ -z "$markers" ] || [ -s "$markers" ] || { echo "check-logs: the markers' file $markers is not there, or empty: it would find nothing." >&2; exit 2; }
# A blank line would be in every line.
[ -z "$markers" ] || ! grep -qE '^\s*$' "$markers" || { echo "check-logs: the markers' file $markers has a blank line." >&2; exit 2; }

mapfile -d '' -t logs < <(find "$folder" -type f -name '*.log' -print0 2>/dev/null | sort -z)
[ ${#logs[@]} -gt 0 ] || { echo "check-logs: there is no *.log below $folder." >&2; exit 2; }
[ "$(cat "${logs[@]}" | head -c 1 | wc -c)" = 1 ] || { echo "check-logs: every log below $folder is empty." >&2; exit 2; }

found=0
# look KIND OPTION… : places alone; the text of the line stays where it is.
look() {
    local kind=$1 places
    shift
    places=$(LC_ALL=C grep -HnaoE "$@" -- "${logs[@]}" | cut -d: -f1,2 | uniq) || [ $? = 1 ]
    [ -n "$places" ] || return 0
    printf '%s\n' "$places" | sed -n 1,20p | sed "s|\$|: $kind|" >&2
    found=$((found + $(printf '%s\n' "$places" | wc -l)))
}

# Sixty-four digits and more: a digest as text would look the same, and has no business there either. Base 64 and octets of a dump as well.
look 'a device token' -e '(^|[^0-9a-fA-F])[0-9a-fA-F]{64,}'
look 'a provider token' -e 'eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}' -e '[Bb]earer [A-Za-z0-9._~+/-]{20,}'
look 'an API key' -e 'psh_[0-9a-fA-F]{16}_[0-9a-fA-F]{16,}'
look 'the secret of a webhook' -e 'whsec_[A-Za-z0-9+/=_-]{16,}'
look 'a private key' -e '-----BEGIN [A-Z ]*PRIVATE KEY-----' -e 'MIGHAgEAMBMGByqGSM49' -e 'MIGTAgEAMBMGByqGSM49'
look 'a payload' -e '\\*"aps\\*" *:'
look 'a password in a URL' -e '(postgres|postgresql|amqp|amqps|https?)://[^/@: "]*:[^/@ "]+@'
if [ -n "$markers" ]; then
    places=$(LC_ALL=C grep -HnaF -f "$markers" -- "${logs[@]}" | cut -d: -f1,2) || [ $? = 1 ]
    if [ -n "$places" ]; then
        printf '%s\n' "$places" | sed -n 1,20p | sed 's|$|: a marker of this run|' >&2
        found=$((found + $(printf '%s\n' "$places" | wc -l)))
    fi
fi
if [ "$found" != 0 ]; then
    printf 'check-logs: %s lines of %s logs below %s hold what must not be there (above)\n' "$found" "${#logs[@]}" "$folder" >&2
    exit 1
fi
printf 'check-logs: %s logs, %s lines, no secret in any\n' "${#logs[@]}" "$(cat "${logs[@]}" | wc -l)"
