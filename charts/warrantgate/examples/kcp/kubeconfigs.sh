#!/bin/sh
# Creates the Secrets of examples/kcp.yaml in a namespace of the current cluster:
#
#   ./kubeconfigs.sh NAMESPACE ADMIN_KUBECONFIG CLIENT_CA_CERTIFICATE CLIENT_CA_KEY
#
# ADMIN_KUBECONFIG is the file that "kcp start" writes, with the contexts root and system:admin. Pods have to reach the servers in it. The CA is
# the one of --client-ca-file. Its key stays here. Run it again before a certificate expires, after a year, and restart the pods.
set -eu
namespace=$1 admin=$2 ca=$3 ca_key=$4
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

of_root() { kubectl --kubeconfig="$admin" --context=root config view --raw --minify --flatten --output="jsonpath={.clusters[0].cluster['$1']}"; }
server=$(of_root server)
of_root certificate-authority-data | base64 -d >"$dir/kcp-ca.crt"

secret() { # NAME KUBECONFIG
	kubectl create secret generic "$1" --namespace="$namespace" --from-file=kubeconfig="$2" --dry-run=client --output=yaml | kubectl apply --filename=-
}

config() { kubectl --kubeconfig="$made" config "$@"; }

user() { # SECRET USER [GROUP]
	openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$dir/$1.key" -subj "${3:+/O=$3}/CN=$2" -out "$dir/$1.csr"
	printf 'extendedKeyUsage = clientAuth\n' >"$dir/extensions"
	openssl x509 -req -in "$dir/$1.csr" -CA "$ca" -CAkey "$ca_key" -CAcreateserial -CAserial "$dir/serial" -days 365 \
		-extfile "$dir/extensions" -out "$dir/$1.crt"
	made=$dir/$1.kubeconfig
	config set-cluster kcp --server="$server" --certificate-authority="$dir/kcp-ca.crt" --embed-certs
	config set-credentials "$2" --client-certificate="$dir/$1.crt" --client-key="$dir/$1.key" --embed-certs
	config set-context kcp --cluster=kcp --user="$2"
	config use-context kcp
	secret "$1" "$made"
}

# The user of the value kcp.user, which has no permissions but those that "warrantgate install kcp" grants.
user warrantgate-kcp warrantgate
user warrantgate-logical-cluster warrantgate-logical-cluster system:kcp:external-logical-cluster-admin
# Administrator of root, and of the shard.
secret kcp-admin "$admin"
