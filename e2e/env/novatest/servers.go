package novatest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"warrantgate.dev/e2e/env/process"
)

// Server is a server.
type Server struct {
	// ID is its UUID. Default: a random one.
	ID   string `json:"id"`
	Name string `json:"name"`
	// ProjectID and UserID are its project and its creator. Nova does not verify that they exist.
	ProjectID string `json:"project_id"`
	UserID    string `json:"user_id"`
	// Metadata are the keys and values of the owner.
	Metadata map[string]string `json:"metadata"`
}

// AddServer adds an active server and returns it. No other server, even a removed one, may have had its UUID.
func (n *Nova) AddServer(ctx context.Context, server Server) (Server, error) {
	if server.ID == "" {
		server.ID = uuid.NewString()
	}
	body, err := json.Marshal(server)
	if err != nil {
		return Server{}, err
	}
	if err := process.Send(ctx, n.http, http.MethodPost, n.controlURL+"/servers", body); err != nil {
		return Server{}, fmt.Errorf("add server %q: %w", server.Name, err)
	}
	return server, nil
}

// RemoveServer deletes a server, as its owner can.
func (n *Nova) RemoveServer(ctx context.Context, id string) error {
	if err := process.Send(ctx, n.http, http.MethodDelete, n.controlURL+"/servers/"+id, nil); err != nil {
		return fmt.Errorf("remove server %s: %w", id, err)
	}
	return nil
}
