package cli

import (
	"fmt"

	"warrantgate.dev/internal/webhookserver"
)

// LoadTokens reads the file of --webhook-path-file.
func LoadTokens(file string) (*webhookserver.Tokens, error) {
	tokens, err := webhookserver.NewTokens(file)
	if err != nil {
		return nil, fmt.Errorf("--webhook-path-file: %w", err)
	}
	return tokens, nil
}
