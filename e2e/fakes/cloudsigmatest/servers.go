package cloudsigmatest

import (
	"encoding/json"
	"maps"
	"net/http"

	"github.com/google/uuid"
)

// wantedServer is the server in a request to create one. The fake ignores the fields that do not matter here.
type wantedServer struct {
	Name        string         `json:"name"`
	CPU         int            `json:"cpu"`
	Memory      int            `json:"mem"`
	VNCPassword string         `json:"vnc_password"`
	Meta        map[string]any `json:"meta"`

	AutoStart          bool            `json:"auto_start"`
	Context            bool            `json:"context"`
	CPUType            string          `json:"cpu_type"`
	CPUsInsteadOfCores bool            `json:"cpus_instead_of_cores"`
	Drives             json.RawMessage `json:"drives"`
	EnableNuma         bool            `json:"enable_numa"`
	EPCs               json.RawMessage `json:"epcs"`
	Hypervisor         string          `json:"hypervisor"`
	NICs               json.RawMessage `json:"nics"`
	PublicKeys         json.RawMessage `json:"pubkeys"`
	SMP                int             `json:"smp"`
	Tags               json.RawMessage `json:"tags"`
}

// decodeServers decodes the servers that a client wants to create.
func decodeServers(r *http.Request) ([]wantedServer, error) {
	var body struct {
		Objects []wantedServer `json:"objects"`
	}
	if err := decodeJSON(r, &body); err != nil {
		return nil, err
	}
	if len(body.Objects) == 0 {
		return nil, unknown(http.StatusBadRequest, "the body has no objects")
	}
	for i := range body.Objects {
		wanted := &body.Objects[i]
		if wanted.Name == "" || wanted.CPU == 0 || wanted.Memory == 0 || wanted.VNCPassword == "" {
			return nil, unknown(http.StatusBadRequest, "a server needs name, cpu, mem and vnc_password")
		}
	}
	return body.Objects, nil
}

func (c *Cloud) answerCreate(w http.ResponseWriter, user User, region string, wanted []wantedServer) {
	created := make([]map[string]any, 0, len(wanted))
	for i := range wanted {
		c.remember(wanted[i].VNCPassword)
		server := &Server{
			UUID: uuid.NewString(), Name: wanted[i].Name, Region: region, Status: "stopped", Owner: user, Meta: map[string]any{},
			cpu: wanted[i].CPU, memory: wanted[i].Memory, vncPassword: wanted[i].VNCPassword,
			shownFrom: c.shownFrom(),
		}
		maps.Copy(server.Meta, wanted[i].Meta)
		put := c.put(server)
		created = append(created, put.details())
	}
	writeJSON(w, http.StatusCreated, map[string]any{"objects": created})
}

// answerServer returns a server to a user who can see it.
func (c *Cloud) answerServer(w http.ResponseWriter, user User, region, id string) {
	if server, ok := c.visible(w, user, region, id); ok {
		writeJSON(w, http.StatusOK, server.details())
	}
}

// answerDelete deletes a server, only for its owner. Permission to see a server is not permission to delete it.
func (c *Cloud) answerDelete(w http.ResponseWriter, user User, region, id string) {
	server, ok := c.visible(w, user, region, id)
	if !ok {
		return
	}
	if server.Owner.UUID != user.UUID {
		c.denied(w, user, "EDIT", id)
		return
	}
	c.RemoveServer(id)
	w.WriteHeader(http.StatusNoContent)
}

// visible returns a server, or responds with the reason why the user cannot see it.
func (c *Cloud) visible(w http.ResponseWriter, user User, region, id string) (Server, bool) {
	server, ok := c.server(region, id)
	switch {
	case !ok:
		c.writeError(w, http.StatusNotFound, "notexist", "Object with uuid "+id+" does not exist")
		return Server{}, false
	case !server.visibleTo(user):
		c.denied(w, user, "LIST", id)
		return Server{}, false
	}
	return server, true
}

// answerList returns a page of the servers that a user can see, oldest first.
func (c *Cloud) answerList(w http.ResponseWriter, user User, region, name string, detail bool, limit, offset int) {
	servers := c.find(func(server *Server) bool {
		return server.Region == region && server.visibleTo(user) && (name == "" || server.Name == name)
	})
	total := len(servers)
	servers = servers[min(offset, total):]
	if limit > 0 {
		servers = servers[:min(limit, len(servers))]
	}
	objects := make([]map[string]any, 0, len(servers))
	for i := range servers {
		object := servers[i].details()
		if !detail {
			object = servers[i].summary()
		}
		objects = append(objects, object)
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"meta":    map[string]int{"limit": limit, "offset": offset, "total_count": total},
		"objects": objects,
	})
}

// summary is a server in the short list.
func (s *Server) summary() map[string]any {
	return map[string]any{
		"uuid": s.UUID, "name": s.Name, "status": s.Status, "runtime": nil,
		"resource_uri": "/api/2.0/servers/" + s.UUID + "/",
		"owner": map[string]string{
			"uuid": s.Owner.UUID, "email": s.Owner.Email, "resource_uri": "/api/2.0/user/" + s.Owner.UUID + "/",
		},
	}
}

// details is a server with all its fields.
func (s *Server) details() map[string]any {
	details := s.summary()
	maps.Copy(details, map[string]any{
		"meta": s.Meta, "cpu": s.cpu, "mem": s.memory, "smp": 1, "vnc_password": s.vncPassword,
		"drives": []any{}, "nics": []any{}, "tags": []any{}, "pubkeys": []any{},
	})
	return details
}
