package clitest

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AwaitListening waits until a server at an address answers HTTP requests, with any status.
func AwaitListening(t *testing.T, address string) {
	t.Helper()
	Await(t, "an answer from "+address, func(ctx context.Context) error {
		_, _, err := Get(ctx, "http://"+address+"/")
		return err
	})
}

// FreeAddresses returns addresses on which nothing listens at the moment.
func FreeAddresses(t *testing.T, n int) []string {
	t.Helper()
	var addresses []string
	for range n {
		var listening net.ListenConfig
		listener, err := listening.Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close() //nolint:gocritic // together, so that they differ
		addresses = append(addresses, listener.Addr().String())
	}
	return addresses
}

// Get sends a GET on a connection of its own.
func Get(ctx context.Context, url string) (code int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return response.StatusCode, string(content), err
}

// Group is an API group with one version, for discovery.
func Group(name, servedVersion string) metav1.APIGroup {
	version := metav1.GroupVersionForDiscovery{GroupVersion: name + "/" + servedVersion, Version: servedVersion}
	return metav1.APIGroup{Name: name, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version}
}

// Resources are the resources of a group and version for discovery, each with a name and a kind.
func Resources(groupVersion string, namesAndKinds ...string) metav1.APIResourceList {
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: groupVersion}
	for i := 0; i < len(namesAndKinds); i += 2 {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: namesAndKinds[i], Kind: namesAndKinds[i+1]})
	}
	return list
}

// Forbidden is the Status with which an API server answers a request that is not allowed.
func Forbidden(message string) metav1.Status {
	return metav1.Status{Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: message}
}
