#!/usr/bin/env bash
# Makes throw-away credentials for a demonstration in FOLDER: a CA, a server certificate for the simulator, an APNs signing key (P-256),
# the simulator's list of known keys, the dispatcher's credentials file and the key that signs device credentials. Existing files are kept.
#   make-credentials.sh FOLDER [HOST…]      more host names, and IPv4 addresses, for the certificate
set -euo pipefail
folder=${1:?usage: make-credentials.sh FOLDER [HOST…]}
shift
names="DNS:localhost,IP:127.0.0.1"
for host in "$@"; do
    case $host in *[!0-9.]*) names+=",DNS:$host" ;; *) names+=",IP:$host" ;; esac
done
mkdir -p "$folder"
cd "$folder"
umask 077
if [ ! -s simulator.crt ]; then
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj "/CN=Push demonstration CA" -keyout ca.key -out ca.crt 2>/dev/null
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=localhost" -keyout simulator.key -out simulator.csr 2>/dev/null
    printf 'subjectAltName=%s\nbasicConstraints=CA:FALSE\n' "$names" >extensions
    openssl x509 -req -in simulator.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 3650 -extfile extensions -out simulator.crt 2>/dev/null
    rm -f simulator.csr extensions ca.srl
fi
[ -s AuthKey_DEMO123456.p8 ] || openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out AuthKey_DEMO123456.p8 2>/dev/null
[ -s device.keys ] || openssl rand -hex 32 >device.keys
openssl pkey -in AuthKey_DEMO123456.p8 -pubout -out AuthKey_DEMO123456.pub
cat >credentials.json <<'J'
{"v":1,"credentials":[{"name":"demo","team_id":"TEAM123456","key_id":"DEMO123456","key_file":"AuthKey_DEMO123456.p8","environments":["production","sandbox"],"apps":["shop"]}]}
J
cat >simulator-keys.json <<'J'
{"v":1,"keys":[{"team_id":"TEAM123456","key_id":"DEMO123456","public_key_file":"AuthKey_DEMO123456.pub","environments":["production","sandbox"]}]}
J
