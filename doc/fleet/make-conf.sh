#!/bin/sh
# make-conf.sh DIR HOST... - prints a configuration of nats-server with the certificates that
# make-ca.sh made in DIR: one user per host, who may publish only what belongs to this host.
set -eu

[ $# -ge 2 ] || { sed -n 's/^# //p' "$0"; exit 2; }
dir=$1
shift

cat << END
tls {
  cert_file: "$dir/server.pem"
  key_file: "$dir/server.key"
  ca_file: "$dir/ca.pem"
  verify_and_map: true # the DNS name of a client's certificate is its user
}
authorization {
  users: [
END
for host in "$@"; do
	cat << END
    { user: "$host", permissions: {
        publish: [ "perfev.agg.*.$host.*", "perfev.res.$host.*", "perfev.hello.$host" ]
        subscribe: [ "perfev.run.*", "_INBOX.$host.>" ] } }
END
done
cat << END
    { user: "gather", permissions: {
        publish: [ "perfev.run.*", "\$JS.API.STREAM.INFO.perfev-hello",
          "\$JS.API.CONSUMER.*.perfev-hello", "\$JS.API.CONSUMER.*.perfev-hello.>",
          "\$JS.API.CONSUMER.MSG.NEXT.perfev-hello.>", "\$JS.ACK.perfev-hello.>" ]
        subscribe: [ "perfev.res.>", "perfev.hello.*", "_INBOX.>" ] } }
    { user: "collect", permissions: {
        publish: [ "\$JS.API.>", "\$JS.ACK.>" ]
        subscribe: [ "_INBOX.>" ] } }
  ]
}
END
