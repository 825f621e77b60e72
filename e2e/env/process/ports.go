package process

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are below the range of ports for outgoing connections. Any connection can take a port of that range while its server
// restarts, and a client that keeps calling a server that is down can even connect to itself.
const (
	firstPort = 15000
	lastPort  = 29999
)

// FreePorts returns n different ports of the loopback interface on which no process listens.
func FreePorts(ctx context.Context, n int) ([]int, error) {
	var config net.ListenConfig
	ports := make([]int, 0, n)
	var held []net.Listener // open until all ports are found, so that they differ
	defer func() {
		for _, listener := range held {
			_ = listener.Close()
		}
	}()
	for range 100 * n {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		listener, err := config.Listen(ctx, "tcp", Loopback(port))
		if err != nil {
			continue
		}
		held = append(held, listener)
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("no %d free ports between %d and %d", n, firstPort, lastPort)
}

// Loopback is the address of a port on this machine.
func Loopback(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
