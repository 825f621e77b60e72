package cloudsigmatest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"warrantgate.dev/e2e/env/access"
	"warrantgate.dev/e2e/fakes/faults"
	"warrantgate.dev/e2e/fakes/journal"
)

const (
	// maxBodyBytes is the maximum size of a request body.
	maxBodyBytes = 1 << 20
	// headerTimeout limits how long a client may take to send the header of a request.
	headerTimeout = 10 * time.Second
	// stopTimeout limits how long requests may take to end after Stop.
	stopTimeout = 5 * time.Second
)

// Cloud is a CloudSigma with its identity provider.
type Cloud struct {
	*secrets
	*directory
	*inventory
	*journal.Journal[Operation]
	*faults.Failures[Operation]
	*tokens
	provider *provider
	recorder journal.Recorder[Operation]

	url        string
	caPEM      []byte
	client     *http.Client
	httpServer *http.Server
	cancel     context.CancelFunc
	served     chan struct{} // closed after serveErr has been set
	serveErr   error
}

// Start starts a cloud with the regions zrh and next on a free port of the loopback interface. It runs until Stop, even after ctx has ended.
func Start(ctx context.Context) (*Cloud, error) {
	certificate, caPEM, err := servingCertificate()
	if err != nil {
		return nil, fmt.Errorf("create the certificate of the cloud: %w", err)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the cloud: %w", err)
	}
	c := &Cloud{url: "https://" + listener.Addr().String(), caPEM: caPEM, served: make(chan struct{})}
	if err := c.prepare(); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	requests, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.cancel = cancel
	c.httpServer = &http.Server{
		Handler:           http.HandlerFunc(c.serve),
		ReadHeaderTimeout: headerTimeout,
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}},
		BaseContext:       func(net.Listener) context.Context { return requests },
		Protocols:         new(http.Protocols),
	}
	c.httpServer.Protocols.SetHTTP1(true) // a fault that closes a connection must not close that of another request
	go func() {
		c.serveErr = c.httpServer.ServeTLS(listener, "", "")
		close(c.served)
	}()
	return c, nil
}

func servingCertificate() (certificate tls.Certificate, caPEM []byte, err error) {
	ca, err := access.NewCA("cloudsigmatest")
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	pair, err := ca.ServingPair("127.0.0.1")
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	certificate, err = tls.X509KeyPair(pair.Certificate, pair.Key)
	return certificate, ca.PEM(), err
}

func (c *Cloud) prepare() error {
	c.secrets = &secrets{}
	c.directory = newDirectory(c.secrets)
	c.inventory = newInventory(c.secrets)
	c.recorder = journal.NewRecorder[Operation]()
	c.Journal = c.recorder.Journal
	c.Failures = faults.New[Operation]()
	c.tokens = newTokens()

	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.caPEM)
	c.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
	var err error
	c.provider, err = newProvider(c.Issuer(), c.directory, c.tokens, c.secrets)
	return err
}

// Stop stops the cloud and ends all blocked requests. It can be called more than once.
func (c *Cloud) Stop() error {
	c.ReleaseAll()
	c.cancel()
	c.client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := c.httpServer.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("stop the cloud: %w", err), c.httpServer.Close())
	}
	<-c.served
	if !errors.Is(c.serveErr, http.ErrServerClosed) {
		return fmt.Errorf("the cloud ended: %w", c.serveErr)
	}
	return nil
}

// OAuthURL is the URL of the identity provider, without a path.
func (c *Cloud) OAuthURL() string { return c.url }

// Issuer is the issuer of the identity provider's tokens. Its discovery document is below this URL.
func (c *Cloud) Issuer() string { return c.url + realmPath }

// TokenURL is the URL of the identity provider's token endpoint.
func (c *Cloud) TokenURL() string { return c.Issuer() + tokenPath }

// APITemplate is the URL of the API of a region, with the placeholder {region}, for tokens of users.
func (c *Cloud) APITemplate() string { return c.url + "/" + directPrefix + "{region}/" + apiPath }

// LegacyAPITemplate is the same for passwords. An impersonated token acts as the service account's own user here.
func (c *Cloud) LegacyAPITemplate() string { return c.url + "/{region}/" + apiPath }

// ServiceProviderTemplate is the URL of the service provider API of a region, with the placeholder {region}.
func (c *Cloud) ServiceProviderTemplate() string {
	return c.url + "/" + directPrefix + "{region}/" + serviceProviderPath
}

// CAPEM is the CA of the cloud, in PEM.
func (c *Cloud) CAPEM() []byte { return c.caPEM }

// CAFile writes the CA of the cloud into a directory and returns the path of the file.
func (c *Cloud) CAFile(dir string) (string, error) {
	path := filepath.Join(dir, "cloudsigma-ca.crt")
	if err := os.WriteFile(path, c.caPEM, 0o600); err != nil {
		return "", fmt.Errorf("write the CA of the cloud: %w", err)
	}
	return path, nil
}

// HTTPClient is a client that trusts the cloud.
func (c *Cloud) HTTPClient() *http.Client { return c.client }
