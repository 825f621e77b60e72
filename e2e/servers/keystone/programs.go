// Package keystone holds what runs in the Python of a distribution that has Keystone: a server of it (serve.py), and its
// oslo.policy as a reference to compare with (reference.py, which is run from its file).
package keystone

import _ "embed" // serve.py

// Serve is the program that serves Keystone. Its arguments are the database and the port.
//
//go:embed serve.py
var Serve []byte
