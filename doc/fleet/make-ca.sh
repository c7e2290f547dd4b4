#!/bin/sh
# make-ca.sh DIR HOST... - makes a test CA in DIR, and certificates of the server (for 127.0.0.1 and
# localhost), of each host, of gather (may ask hosts to run scripts), and of collect (may read the
# streams). Existing files stay. For production use the CA that you have: the server only needs
# certificates whose DNS name is the name of the host's user in nats.conf.
set -eu

[ $# -ge 1 ] || { sed -n 's/^# //p' "$0"; exit 2; }
dir=$1
shift
days=365
umask 077
mkdir -p "$dir"

new_key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1"; }

if [ ! -e "$dir/ca.key" ]; then
	new_key "$dir/ca.key"
	openssl req -x509 -new -key "$dir/ca.key" -days "$days" -subj '/CN=perfev test CA' \
		-out "$dir/ca.pem"
fi

# NAME EXTENDED_KEY_USAGE ALTERNATIVE_NAMES
certify()
{
	[ ! -e "$dir/$1.pem" ] || return 0
	new_key "$dir/$1.key"
	openssl req -new -key "$dir/$1.key" -subj "/CN=$1" -out "$dir/$1.csr"
	printf 'subjectAltName=%s\nextendedKeyUsage=%s\n' "$3" "$2" > "$dir/$1.ext"
	openssl x509 -req -in "$dir/$1.csr" -CA "$dir/ca.pem" -CAkey "$dir/ca.key" \
		-CAcreateserial -days "$days" -extfile "$dir/$1.ext" -out "$dir/$1.pem" 2> /dev/null
	rm "$dir/$1.csr" "$dir/$1.ext"
}

certify server serverAuth 'DNS:localhost,IP:127.0.0.1'
for name in gather collect "$@"; do
	certify "$name" clientAuth "DNS:$name"
done
# Public parts, for every user.
chmod 755 "$dir"
chmod 644 "$dir"/*.pem
