// Package oslopolicy reads, evaluates and judges policy files in the language of OpenStack's oslo.policy, as Keystone
// reads them.
//
// The language is that of oslo.policy 4.0, its surprises included: a rule that cannot be parsed denies, an empty one
// allows, and some make the service fail with an exception. Evaluation gives what the library gives, and an error where
// the library raises an exception, so that a caller who takes an error for a denial is never more generous than Keystone.
// Work is bounded: in the size of a file, the depth of a rule, the checks that one question may take; whatever goes
// beyond is refused. No rule makes this package speak to another host: http: and https: checks are answered with an error.
package oslopolicy
