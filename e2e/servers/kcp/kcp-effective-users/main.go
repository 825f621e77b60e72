// Command kcp-effective-users evaluates, with kcp's own code, the effective users of a user in a logical cluster. Property tests of the owner
// rewrite use it as their reference, so that they do not compare warrantgate with a copy of its own logic. It reads one question per line
// from standard input and writes one answer per line to standard output, both as JSON, until the input ends. It exits at a question that
// cannot be decoded: a property test must not continue without its reference.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"
)

// maxLineBytes leaves room for owners that are far larger than an annotation may be.
const maxLineBytes = 4 << 20

// question is a user in a logical cluster.
type question struct {
	// Cluster is the name of the logical cluster in which the user acts.
	Cluster string   `json:"cluster"`
	User    userInfo `json:"user"`
	// GlobalServiceAccounts is the feature gate GlobalServiceAccount, which differs between releases of kcp.
	GlobalServiceAccounts bool `json:"globalServiceAccounts"`
}

// answer contains the users whose permissions the user has there, and the groups of all of them.
type answer struct {
	Effective []userInfo `json:"effective"`
	Groups    []string   `json:"groups"`
}

type userInfo struct {
	Username string              `json:"username"`
	UID      string              `json:"uid,omitempty"`
	Groups   []string            `json:"groups,omitempty"`
	Extra    map[string][]string `json:"extra,omitempty"`
}

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "kcp-effective-users:", err)
		os.Exit(1)
	}
}

// run writes answers until in ends. It flushes them when no further question is waiting, so that the caller can send questions one by one
// or in bulk.
func run(in io.Reader, out io.Writer) error {
	questions := bufio.NewReaderSize(in, maxLineBytes)
	answers := bufio.NewWriter(out)
	encoder := json.NewEncoder(answers)
	for number := 1; ; number++ {
		line, err := questions.ReadSlice('\n')
		if len(line) > 0 && (err == nil || errors.Is(err, io.EOF)) {
			if err := answerLine(line, encoder); err != nil {
				return fmt.Errorf("line %d: %w", number, err)
			}
		}
		if errors.Is(err, io.EOF) {
			return answers.Flush()
		}
		if err != nil {
			return fmt.Errorf("read line %d: %w", number, err)
		}
		if questions.Buffered() == 0 {
			if err := answers.Flush(); err != nil {
				return err
			}
		}
	}
}

func answerLine(line []byte, encoder *json.Encoder) error {
	var asked question
	if err := json.Unmarshal(line, &asked); err != nil {
		return err
	}
	gates := map[string]bool{string(features.GlobalServiceAccount): asked.GlobalServiceAccounts}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(gates); err != nil {
		return err
	}
	return encoder.Encode(effectiveUsers(asked))
}

func effectiveUsers(asked question) answer {
	effective := validation.EffectiveUsers(logicalcluster.Name(asked.Cluster), &user.DefaultInfo{
		Name:   asked.User.Username,
		UID:    asked.User.UID,
		Groups: asked.User.Groups,
		Extra:  asked.User.Extra,
	})
	result := answer{Effective: make([]userInfo, 0, len(effective))}
	groups := sets.New[string]()
	for _, u := range effective {
		result.Effective = append(result.Effective, userInfo{
			Username: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: u.GetExtra(),
		})
		groups.Insert(u.GetGroups()...)
	}
	result.Groups = sets.List(groups)
	return result
}
