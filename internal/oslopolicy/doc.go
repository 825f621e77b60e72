// Package oslopolicy parses, evaluates and lints policy files in the language of OpenStack's oslo.policy, as Keystone loads them.
//
// The language is that of oslo.policy 4.0, with its special cases: a rule that cannot be parsed denies, an empty rule allows, and some
// rules raise an exception in the service. Evaluation returns the result of the library, and an error if the library raises an exception.
// A caller that treats errors as denials allows no more than Keystone. The size of a file, the depth of a rule, and the number of checks
// for one request are limited. Input above these limits is an error. The package sends no requests: http: and https: checks return an
// error.
package oslopolicy
