package cli

import (
	"errors"
	"fmt"
)

// Exit codes of all commands besides 0.
const (
	// ExitWrong means that something is wrong with what the command checks.
	ExitWrong = 1
	// ExitUnknown means that the command was called in a wrong way, could not do its work, or could not determine a result. Every error that is
	// not an ExitError has this code.
	ExitUnknown = 2
)

// ExitError ends the program with an exit code of its own. Commands whose exit code is a result return it.
type ExitError struct {
	Code int
	// Err is the error to print, or nil if nothing is left to print.
	Err error
}

// Error implements error.
func (e ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the error to print.
func (e ExitError) Unwrap() error { return e.Err }

// ExitCode returns the exit code for the error of a command, and the error to print, if any.
func ExitCode(err error) (code int, message error) {
	if exit, ok := errors.AsType[ExitError](err); ok {
		return exit.Code, exit.Err
	}
	return ExitUnknown, err
}
