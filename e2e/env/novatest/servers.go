package novatest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/google/uuid"
)

// maxErrorBytes limits the part of a response of the control port in an error.
const maxErrorBytes = 4 << 10

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
	if err := n.control(ctx, http.MethodPost, "/servers", body); err != nil {
		return Server{}, fmt.Errorf("add server %q: %w", server.Name, err)
	}
	return server, nil
}

// RemoveServer deletes a server, as its owner can.
func (n *Nova) RemoveServer(ctx context.Context, id string) error {
	if err := n.control(ctx, http.MethodDelete, "/servers/"+id, nil); err != nil {
		return fmt.Errorf("remove server %s: %w", id, err)
	}
	return nil
}

func (n *Nova) control(ctx context.Context, method, path string, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, method, n.controlURL+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := n.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxErrorBytes))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, text)
	}
	return err
}
