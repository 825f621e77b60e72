// Package certificates makes the serving certificate of the webhooks, renews it, and has API servers trust it.
//
// One Secret holds the authority, the certificate and their keys. The replica that leads (Keeper) writes it; every replica
// serves what is in it (Source). An authority is changed in an order that leaves every certificate trusted that a replica may
// be serving, wherever a leader dies on the way:
//
//  1. The next authority is written into the Secret, beside the present one. Nothing is served by it yet.
//  2. It is added to the webhook configurations of every API server.
//  3. A pass later, when the API servers have noticed, a certificate by it takes the place of the present one.
//  4. Former authorities stay trusted until they end: a replica that cannot read the Secret may still serve by them.
//
// An API server that cannot be reached holds up the third step, as long as the present authority is good for a further
// certificate. Then waiting would help nobody: the others get the new one, and that API server once it can be reached.
//
// What makes and judges certificates is cert-controller's. Its own rotation is not used: it lists and watches all Secrets of
// a namespace, knows one API server only, and replaces an authority at once, so that admissions fail until the last replica
// has the new certificate.
package certificates
