package process

import (
	"context"
	"fmt"
	"net/http"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metric returns the sum of a counter or gauge over all series with the given labels, 0 if there is none. url is the base URL of the
// metrics endpoint, without a path.
func Metric(ctx context.Context, httpClient *http.Client, url, name string, labels map[string]string) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", http.NoBody)
	if err != nil {
		return 0, err
	}
	response, err := httpClient.Do(request)
	if err != nil {
		return 0, fmt.Errorf("read metrics: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("read metrics: %s", response.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		return 0, fmt.Errorf("read metrics: %w", err)
	}
	sum := 0.0
	for _, metric := range families[name].GetMetric() {
		found := 0
		for _, label := range metric.GetLabel() {
			if value, selected := labels[label.GetName()]; selected && value == label.GetValue() {
				found++
			}
		}
		if found == len(labels) {
			sum += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
	}
	return sum, nil
}
