package serve

import (
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// newPprofServer serves /debug/pprof, nil where the address is empty. It has an address of its own, as a profile says more
// about a process, and costs it more, than whoever reads metrics is to have.
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
		// No timeout of answers, as a profile takes as long as is asked for.
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
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, fmt.Sprint(port)), nil
}
