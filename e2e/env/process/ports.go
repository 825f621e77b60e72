package process

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports are below the range of ports for outgoing connections. Any connection can take a port of that range while its server
// restarts, and a client that keeps calling a server that is down can even connect to itself.
const (
	firstPort = 15000
	lastPort  = 29999
)

// reserved are UDP sockets on the ports that this process has taken, until it ends. So no other suite takes them before a server listens on
// them, or while it restarts.
var reserved struct {
	sync.Mutex
	sockets []net.PacketConn
}

// FreePorts returns n different ports of the loopback interface on which no process listens, and which no other call returns.
func FreePorts(ctx context.Context, n int) ([]int, error) {
	var config net.ListenConfig
	ports := make([]int, 0, n)
	reserved.Lock()
	defer reserved.Unlock()
	for range 100 * n {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		socket, err := config.ListenPacket(ctx, "udp", Loopback(port))
		if err != nil {
			continue
		}
		listener, err := config.Listen(ctx, "tcp", Loopback(port))
		if err != nil {
			_ = socket.Close()
			continue
		}
		_ = listener.Close()
		reserved.sockets = append(reserved.sockets, socket)
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
