// Package nova contains the program that runs in a distribution's Python with Nova: Nova's compute API (serve.py).
package nova

import _ "embed" // serve.py, api-paste.ini

// Serve is the program that serves Nova's compute API. Its arguments are the directory of the databases and two ports.
//
//go:embed serve.py
var Serve []byte

// APIPaste is the file api-paste.ini: the middleware before the API.
//
//go:embed api-paste.ini
var APIPaste []byte
