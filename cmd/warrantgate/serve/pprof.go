package serve

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// newPprofServer serves /debug/pprof, or returns nil if the address is empty. It has its own address, because a profile shows more of the
// process, and costs it more, than readers of metrics may have.
func newPprofServer(address string) (manager.Runnable, error) {
	if address == "" {
		return nil, nil //nolint:nilnil // off is no error
	}
	address, err := loopbackUnlessSaid(address)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	// All but cmdline: an argument may hold a secret.
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", http.NotFound)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return &manager.Server{Name: "pprof", Server: &http.Server{
		Addr: address, Handler: mux,
		// There is no write timeout, because the client chooses how long a profile takes.
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, IdleTimeout: time.Minute,
	}}, nil
}

// loopbackUnlessSaid returns the address to listen on for 6060, :6060, or host:6060.
func loopbackUnlessSaid(address string) (string, error) {
	if !strings.Contains(address, ":") {
		address = ":" + address
	}
	host, port, err := splitAddress(address)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(cmp.Or(host, "127.0.0.1"), fmt.Sprint(port)), nil
}
