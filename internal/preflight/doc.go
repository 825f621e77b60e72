// Package preflight says what keeps a workspace from becoming Ready: whether the owner that kcp acts as can do what the
// WorkspaceType asks of it, and what else is waited for.
//
// It only reads, and asks kcp the questions that kcp will ask itself. What it may not read or ask is a finding of its own:
// no answer is never taken for a "no".
package preflight
