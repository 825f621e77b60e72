package kcptest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"

	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
)

// InitializationError returns kcp's error for the default API bindings of a logical cluster, "" if there is none yet.
//
// In v0.32, the error is in a condition of the LogicalCluster. v0.30 rejects its own update of that condition ("only removing the
// \"system:apibindings\" initializer is supported"), so that the error is only in its log.
func (s *Server) InitializationError(ctx context.Context, clusterName string) (string, error) {
	shard, lc, err := s.shardOf(ctx, clusterName)
	if err != nil {
		return "", err
	}
	for i := range lc.Status.Conditions {
		condition := &lc.Status.Conditions[i]
		if condition.Type == tenancyv1alpha1.WorkspaceAPIBindingsInitialized &&
			condition.Reason == tenancyv1alpha1.WorkspaceInitializedAPIBindingErrors {
			return condition.Message, nil
		}
	}
	return loggedInitializationError(shard.logFile, clusterName)
}

func loggedInitializationError(logFile, clusterName string) (string, error) {
	log, err := os.ReadFile(logFile)
	if err != nil {
		return "", err
	}
	message := ""
	lines := bufio.NewScanner(bytes.NewReader(log))
	lines.Buffer(nil, len(log)+1)
	for lines.Scan() {
		line := lines.Bytes()
		if !bytes.Contains(line, []byte(`"error initializing APIBindings" err=`)) ||
			!bytes.Contains(line, fmt.Appendf(nil, `key="%s|cluster"`, clusterName)) {
			continue
		}
		_, rest, _ := bytes.Cut(line, []byte(` err=`))
		quoted, err := strconv.QuotedPrefix(string(rest))
		if err != nil {
			return "", fmt.Errorf("log of kcp: %w: %s", err, line)
		}
		if message, err = strconv.Unquote(quoted); err != nil {
			return "", fmt.Errorf("log of kcp: %w: %s", err, line)
		}
	}
	return message, lines.Err()
}
