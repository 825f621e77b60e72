package webhookserver

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
)

// maxStrangers is the number of connections that may be open without a request of an API server. Each can take more than 100 KiB, also if its
// client has sent only a part of the TLS handshake.
const maxStrangers = 128

// Strangers limits the memory of connections: for each new one it closes the oldest, unless an API server has sent a request on it. If it
// rejected new connections instead, one client could lock out all others.
type Strangers struct {
	mu sync.Mutex
	// newest are the newest connections, also if they are closed.
	newest [maxStrangers]*stranger
	next   int
}

// stranger is a TCP connection, because one of TLS would keep its buffers after it is closed.
type stranger struct {
	net.Conn
	known atomic.Bool
}

type strangerKey struct{}

// Accept is the ConnContext of an http.Server.
func (s *Strangers) Accept(ctx context.Context, conn net.Conn) context.Context {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	accepted := &stranger{Conn: conn}
	s.mu.Lock()
	oldest := s.newest[s.next]
	s.newest[s.next] = accepted
	s.next = (s.next + 1) % maxStrangers
	s.mu.Unlock()
	if oldest != nil && !oldest.known.Load() {
		_ = oldest.Close() // it may be closed already
	}
	return context.WithValue(ctx, strangerKey{}, accepted)
}

// know keeps the connection of a request open.
func know(ctx context.Context) {
	if accepted, ok := ctx.Value(strangerKey{}).(*stranger); ok {
		accepted.known.Store(true)
	}
}
