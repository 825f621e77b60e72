package openstacktest

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// defaultMaxLimit is how many servers a page has at most ([api]max_limit).
const defaultMaxLimit = 1000

// Server is a server.
type Server struct {
	// ID is its UUID. Default: a random one.
	ID   string
	Name string
	// ProjectID and UserID say whose it is, and who made it.
	ProjectID, UserID string
	// Metadata are the owner's own keys and values.
	Metadata map[string]string
	// Created is when it was made. Default: now.
	Created time.Time
}

// clone copies a server, so that nobody shares its metadata.
func (s Server) clone() Server {
	s.Metadata = maps.Clone(s.Metadata)
	return s
}

// inventory is all servers of all projects.
type inventory struct {
	mu             sync.Mutex
	servers        []Server // newest first
	maxLimit       int
	administrators map[string]bool
}

func newInventory() *inventory {
	return &inventory{maxLimit: defaultMaxLimit, administrators: map[string]bool{}}
}

// AddServer adds a server and returns it. It replaces the one of the same UUID.
func (i *inventory) AddServer(server Server) Server {
	if server.ID == "" {
		server.ID = uuid.NewString()
	}
	if server.Created.IsZero() {
		server.Created = time.Now()
	}
	i.RemoveServer(server.ID)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.servers = slices.Insert(i.servers, 0, server.clone())
	return server
}

// RemoveServer removes a server, as its owner could.
func (i *inventory) RemoveServer(id string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.servers = slices.DeleteFunc(i.servers, func(s Server) bool { return s.ID == id })
}

// SetMaxLimit says how many servers a page has at most, whatever the client asks for.
func (i *inventory) SetMaxLimit(limit int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.maxLimit = limit
}

// SetAdministrators says tokens of which projects see the servers of all projects, as those with the role admin do. Lists still
// have their own only.
func (i *inventory) SetAdministrators(projectIDs ...string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	clear(i.administrators)
	for _, id := range projectIDs {
		i.administrators[id] = true
	}
}

// visible returns a server that the project may see.
func (i *inventory) visible(projectID, id string) (Server, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, s := range i.servers {
		if s.ID == id && (s.ProjectID == projectID || i.administrators[projectID]) {
			return s.clone(), true
		}
	}
	return Server{}, false
}

// list returns the servers of the project that match, newest first, and how many a page has at most.
func (i *inventory) list(projectID string, matches func(name string) bool) (found []Server, maxLimit int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, s := range i.servers {
		if s.ProjectID == projectID && matches(s.Name) {
			found = append(found, s.clone())
		}
	}
	return found, i.maxLimit
}
