// Package keystone contains the programs that run in a distribution's Python with Keystone: a server of Keystone (serve.py), and
// oslo.policy as a reference for comparisons (reference.py, which is run from its file).
package keystone

import _ "embed" // serve.py

// Serve is the program that serves Keystone. Its arguments are the database and the port.
//
//go:embed serve.py
var Serve []byte
