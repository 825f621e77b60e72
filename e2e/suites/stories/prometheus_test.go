//go:build e2e

package stories_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/api"
	prometheusv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"warrantgate.dev/e2e/env/asset"
	"warrantgate.dev/e2e/env/process"
	"warrantgate.dev/e2e/env/suite"
)

// chartFiles is the folder of the alerts and of the dashboard.
const chartFiles = "../../../charts/warrantgate/files/"

// prometheus is a Prometheus that evaluates the alerts of the chart every second.
type prometheus struct{ prometheusv1.API }

// startPrometheus starts a Prometheus that reads the metrics of a kube-apiserver, as an administrator, and of warrantgates. An alert
// fires as soon as its expression has been true for a second.
func startPrometheus(ctx context.Context, apiServer *rest.Config, warrantgates ...string) prometheus {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		Expect(os.WriteFile(path, content, 0o600)).To(Succeed())
		return path
	}
	static := func(addresses ...string) []any { return []any{map[string]any{"targets": addresses}} }
	config, err := yaml.Marshal(map[string]any{
		"global":     map[string]any{"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
		"rule_files": []string{write("alerts.yaml", soonerAlerts())},
		"scrape_configs": []any{
			map[string]any{"job_name": "warrantgate", "static_configs": static(warrantgates...)},
			map[string]any{
				"job_name": "kube-apiserver", "scheme": "https", "static_configs": static(strings.Trim(strings.TrimPrefix(apiServer.Host, "https:"), "/")),
				"tls_config": map[string]any{
					"ca_file":   write("ca.crt", apiServer.CAData),
					"cert_file": write("tls.crt", apiServer.CertData), "key_file": write("tls.key", apiServer.KeyData),
				},
			},
		},
	})
	Expect(err).NotTo(HaveOccurred())
	ports, err := process.FreePorts(ctx, 1)
	Expect(err).NotTo(HaveOccurred())
	address := process.Loopback(ports[0])
	running, err := process.Start(process.Options{
		Name: "prometheus", LogFile: filepath.Join(dir, "prometheus.log"), Binary: suite.Binary(asset.Prometheus),
		Args: []string{
			"--config.file=" + write("prometheus.yaml", config), "--storage.tsdb.path=" + filepath.Join(dir, "data"), "--web.listen-address=" + address,
		},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(running.Stop)
	Expect(running.WaitReady(ctx, "http://"+address+"/-/ready", &rest.Config{})).To(Succeed())
	client, err := api.NewClient(api.Config{Address: "http://" + address})
	Expect(err).NotTo(HaveOccurred())
	return prometheus{prometheusv1.NewAPI(client)}
}

// soonerAlerts are the alerts of the chart, with the same expressions, that wait for a second in place of minutes.
func soonerAlerts() []byte {
	GinkgoHelper()
	var file struct {
		Groups []struct {
			Name  string           `json:"name"`
			Rules []map[string]any `json:"rules"`
		} `json:"groups"`
	}
	content, err := os.ReadFile(chartFiles + "alerts.yaml")
	Expect(err).NotTo(HaveOccurred())
	Expect(yaml.UnmarshalStrict(content, &file)).To(Succeed())
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			rule["for"] = "1s"
		}
	}
	content, err = yaml.Marshal(file)
	Expect(err).NotTo(HaveOccurred())
	return content
}

// firing are the names of the alerts that fire.
func (p prometheus) firing(ctx context.Context) (names []string, err error) {
	result, err := p.Alerts(ctx)
	for _, alert := range result.Alerts {
		if alert.State == prometheusv1.AlertStateFiring {
			names = append(names, string(alert.Labels["alertname"]))
		}
	}
	slices.Sort(names)
	return slices.Compact(names), err
}
