// Package cloudsigmatest stands for CloudSigma and its identity provider on this machine, for the end-to-end suites, the
// demo and the benchmarks.
//
// The identity provider is a real OpenID provider (zitadel/oidc) that speaks with the words of a Keycloak: it checks client
// secrets, signs tokens and verifies them. Two of the grants are Keycloak's own: the UMA ticket, and requested_subject in
// the token exchange of RFC 8693. The API knows only what is documented and judges every request by its token, as the
// real one does. What it does not know is refused and kept as a violation, so that a suite can assert that there are none.
//
// It is a plain library. All state can be changed while it runs: users, secrets, servers, the life of tokens, and what
// fails how often. Several clouds may run at the same time.
package cloudsigmatest
