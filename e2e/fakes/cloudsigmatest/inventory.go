package cloudsigmatest

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// MachineUID is the key in a server's meta that contains the UID of the machine object. CAPCS writes it.
const MachineUID = "machine-uid"

// Server is a server in a region.
type Server struct {
	UUID, Name, Region string
	// Status is the status of the API, such as "running" or "stopped".
	Status string
	Owner  User
	// Meta are the keys and values that the owner sets.
	Meta map[string]any
	// SharedWith are the email addresses of the users in the server's access control list.
	SharedWith []string

	cpu, memory int
	vncPassword string
	// shownFrom is the time from which its owner sees it.
	shownFrom time.Time
}

// ServerOption changes a server before it is added.
type ServerOption func(*Server)

// WithUUID sets the UUID of the server. Default: a random one.
func WithUUID(id string) ServerOption { return func(s *Server) { s.UUID = id } }

// WithMeta adds a key to the server's meta; see MachineUID.
func WithMeta(key string, value any) ServerOption { return func(s *Server) { s.Meta[key] = value } }

// SharedWith adds users, by their email addresses, to the server's access control list.
func SharedWith(emails ...string) ServerOption {
	return func(s *Server) { s.SharedWith = append(s.SharedWith, emails...) }
}

// inventory contains the servers of all regions.
type inventory struct {
	secrets *secrets

	mu      sync.Mutex
	regions map[string]bool
	servers map[string]*Server // by UUID
	order   []string           // UUIDs, oldest first
	delay   time.Duration
}

// ShowAfter delays the visibility of servers that later requests create. A cloud can create a server before its access control list
// in the same way.
func (i *inventory) ShowAfter(delay time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.delay = delay
}

func (i *inventory) shownFrom() time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.delay == 0 {
		return time.Time{}
	}
	return time.Now().Add(i.delay)
}

func newInventory(secrets *secrets) *inventory {
	return &inventory{secrets: secrets, regions: map[string]bool{"zrh": true, "next": true}, servers: map[string]*Server{}}
}

// AddServer adds a server to a region. Names need not be unique. A server replaces an existing one with the same UUID.
func (i *inventory) AddServer(region string, owner User, name string, options ...ServerOption) Server {
	server := &Server{
		UUID: uuid.NewString(), Name: name, Region: region, Status: "running", Owner: owner, Meta: map[string]any{},
		cpu: 2000, memory: 4 << 30, vncPassword: i.secrets.random(),
	}
	for _, option := range options {
		option(server)
	}
	return i.put(server)
}

// put adds a server and returns a copy. The caller must not use the original afterwards.
func (i *inventory) put(server *Server) Server {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.regions[server.Region] = true
	if _, ok := i.servers[server.UUID]; !ok {
		i.order = append(i.order, server.UUID)
	}
	i.servers[server.UUID] = server
	return server.clone()
}

// RemoveServer removes a server, as its owner can.
func (i *inventory) RemoveServer(id string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.servers, id)
	i.order = slices.DeleteFunc(i.order, func(other string) bool { return other == id })
}

// Servers returns all servers, oldest first.
func (i *inventory) Servers() []Server {
	return i.find(func(*Server) bool { return true })
}

func (i *inventory) find(wanted func(*Server) bool) []Server {
	i.mu.Lock()
	defer i.mu.Unlock()
	found := []Server{}
	for _, id := range i.order {
		if server := i.servers[id]; wanted(server) {
			found = append(found, server.clone())
		}
	}
	return found
}

func (i *inventory) server(region, id string) (Server, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	server, ok := i.servers[id]
	if !ok || server.Region != region {
		return Server{}, false
	}
	return server.clone(), true
}

func (i *inventory) hasRegion(region string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.regions[region]
}

// clone copies a server and its meta.
func (s *Server) clone() Server {
	c := *s
	c.Meta, c.SharedWith = maps.Clone(s.Meta), slices.Clone(s.SharedWith)
	return c
}

// visibleTo returns whether a user may see the server.
func (s *Server) visibleTo(user User) bool {
	return s.Owner.UUID == user.UUID && !time.Now().Before(s.shownFrom) || slices.Contains(s.SharedWith, user.Email)
}
