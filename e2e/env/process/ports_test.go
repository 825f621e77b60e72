package process_test

import (
	"net"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"

	"warrantgate.dev/e2e/env/process"
)

func TestFreePorts(t *testing.T) {
	ports, err := process.FreePorts(t.Context(), 20)
	if err != nil {
		t.Fatal(err)
	}
	if different := sets.New(ports...); different.Len() != 20 {
		t.Errorf("FreePorts() = %v, want 20 different ones", ports)
	}
	var config net.ListenConfig
	for _, port := range ports {
		listener, err := config.Listen(t.Context(), "tcp", process.Loopback(port))
		if err != nil {
			t.Errorf("port %d is not free: %v", port, err)
			continue
		}
		_ = listener.Close()
		if port < 15000 || port > 29999 {
			t.Errorf("port %d may be taken by any connection", port)
		}
	}
}
