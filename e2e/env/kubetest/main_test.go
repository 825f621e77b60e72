package kubetest_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// pollInterval is the interval between two checks.
	pollInterval = 25 * time.Millisecond
	// patience limits how long tests wait.
	patience = 30 * time.Second
	// standInEnv makes the test binary a stand-in for warrantgate. Its value is the name of the stand-in.
	standInEnv = "KUBETEST_STAND_IN"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(standInEnv); name != "" {
		if err := standIn(context.Background(), name, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// standIn prints the arguments of a command, the user of its kubeconfig, and the flags that differ between commands. Then "serve" becomes
// ready, unless there is a flag --fail.
func standIn(ctx context.Context, name string, args []string) error {
	words, flags := []string{name}, []string{}
	values := map[string]string{}
	for _, arg := range args {
		key, value, isFlag := strings.Cut(arg, "=")
		values[key] = value
		switch {
		case !isFlag && !strings.HasPrefix(arg, "--"):
			words = append(words, arg)
		case key == "--kubeconfig":
		case args[0] == "serve" && (key == "--config" || key == "--webhook-path-file" || strings.HasPrefix(key, "--tls-") || strings.HasSuffix(key, "-address")):
		default:
			flags = append(flags, arg)
		}
	}
	user, err := whoAmI(ctx, values["--kubeconfig"])
	if err != nil {
		return err
	}
	fmt.Printf("%s as %s: %s\n", strings.Join(words, " "), user, strings.Join(flags, " "))
	if _, fail := values["--fail"]; args[0] != "serve" || fail {
		return nil
	}
	server := &http.Server{
		Addr: values["--health-address"], ReadHeaderTimeout: time.Second,
		Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
	}
	return server.ListenAndServe()
}

func whoAmI(ctx context.Context, kubeconfig string) (string, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return "", err
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	review, err := clients.AuthenticationV1().SelfSubjectReviews().
		Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return review.Status.UserInfo.Username, nil
}
