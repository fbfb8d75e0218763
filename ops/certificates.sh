#!/bin/sh
# An authority of your own, and certificates for NATS and for gateways, in PEM, for ops/compose.yml or to try things out:
#   ops/certificates.sh FOLDER [NAME ...]     names or addresses that gateways are reached by, besides localhost
# What is there already is kept, the authority above all. It is good for ten years, certificates for one; run it again after removing one.
set -eu
umask 077
folder=${1:?say where to: ops/certificates.sh FOLDER}
shift
mkdir -p "$folder"
cd "$folder"

if [ ! -e ca.pem ]; then
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj '/CN=Chairlift fleet' \
    -addext 'keyUsage=critical,keyCertSign' -keyout ca-key.pem -out ca.pem
fi

# NAME, then each name or address that it is for.
certificate() {
  name=$1
  shift
  [ -e "$name.pem" ] && return
  names=
  for one in "$@"; do
    case $one in
    *[!0-9.]*) names="$names,DNS:$one" ;;
    *) names="$names,IP:$one" ;;
    esac
  done
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$name" -keyout "$name-key.pem" -out "$name.csr"
  printf 'subjectAltName=%s\n' "${names#,}" >"$name.ext"
  openssl x509 -req -in "$name.csr" -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 365 -extfile "$name.ext" -out "$name.pem"
  rm "$name.csr" "$name.ext"
}

certificate nats nats localhost 127.0.0.1
certificate gateway localhost 127.0.0.1 "$@"
# Nobody else of this machine comes into the folder; containers are given single files, and read them as users of their own.
chmod 700 .
chmod 644 ./*.pem
chmod 600 ca-key.pem
