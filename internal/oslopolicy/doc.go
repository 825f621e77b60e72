// Package oslopolicy reads, evaluates and lints policy files in the language of OpenStack's oslo.policy, as Keystone loads them. It has three
// layers: values are read from a file, a value is parsed as a rule, and rules have findings.
//
//   - The file (file*.go): Read reads JSON or YAML. It accepts the part of YAML that all versions of YAML agree on.
//     A file that it accepts has the same values in oslo.policy.
//   - The language (language*.go): parsing and evaluation of rules. It is that of oslo.policy 4.0, with its special cases: a rule that cannot be
//     parsed denies, an empty rule allows, and some rules raise an exception in the service. Policy.Enforce returns the result of the library,
//     and an error if the library raises an exception. A caller that treats errors as denials allows no more than Keystone.
//   - The findings (findings*.go): LintKeystone lints files. It searches requests for which two policies differ (search*.go). What Keystone
//     fills in for each operation, its own rules in each release, and the credentials of its tokens are in keystone*.go and *.json.
//
// The size of a file, the depth of a rule, and the number of checks for one request are limited. Input above these limits is an error. The
// package sends no requests: http: and https: checks return an error.
package oslopolicy
