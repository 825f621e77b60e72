// Package preflight reports why a workspace does not become Ready: whether the owner that kcp acts as has the permissions that the
// WorkspaceType requires, and which initializers have not finished.
//
// It only reads objects and creates SubjectAccessReviews, for the same permissions that kcp checks. An object that cannot be read and a
// check that fails are findings of their own, and never count as "no".
package preflight
