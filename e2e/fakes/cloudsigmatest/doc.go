// Package cloudsigmatest is a fake of CloudSigma and its identity provider, for the end-to-end suites, the demo and the benchmarks.
//
// The identity provider is a real OpenID provider (zitadel/oidc) with the responses of a Keycloak: it checks client secrets, signs
// tokens and verifies them. Two of the grants are Keycloak's own: the UMA ticket, and requested_subject in the token exchange of RFC
// 8693. The API implements only what is documented and authorizes every request by its token, as the real one does. It rejects
// everything else and records it as a violation. Each region has two hosts, as the real one, which are the first segment of the path here: an
// impersonated token acts as its user at direct.<region> only, and a password belongs to <region>. Each suite asserts that there are no violations. It does not depend on Ginkgo. All state
// can change while it runs: users, secrets, servers, the lifetime of tokens, and faults. Several clouds can run at the same time.
package cloudsigmatest
