package cli

import (
	"errors"
	"fmt"
)

// Exit codes of commands whose exit code is an answer for scripts.
const (
	// ExitWrong is that something is wrong.
	ExitWrong = 1
	// ExitUnknown is that it could not be determined.
	ExitUnknown = 2
)

// ExitError ends the program with a code of its own. Commands whose exit code is an answer return one.
type ExitError struct {
	Code int
	// Err is printed; nil if all has been said.
	Err error
}

// Error implements error.
func (e ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns what is printed.
func (e ExitError) Unwrap() error { return e.Err }

// ExitCode is the code that an error of a command ends the program with, and what is to be printed, if anything.
func ExitCode(err error) (code int, message error) {
	if exit, ok := errors.AsType[ExitError](err); ok {
		return exit.Code, exit.Err
	}
	return 1, err
}

// UnknownIfError makes an error one after which nothing is known.
func UnknownIfError(err error) error {
	if err == nil {
		return nil
	}
	return ExitError{Code: ExitUnknown, Err: err}
}
