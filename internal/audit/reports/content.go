package reports

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"warrantgate.dev/internal/message"
)

const (
	// maxResults and maxBytes limit the results of one report, which etcd stores as one object of at most 1.5 MiB.
	maxResults = 500
	maxBytes   = 512 << 10
	// maxStoredBytes is more than a report of ours has with its metadata.
	maxStoredBytes = maxBytes + 128<<10
	// maxMessageBytes is the limit for a message, the same as in an Event.
	maxMessageBytes = 1024
	// Omitted is the rule of the result that says how many results are not in a report.
	Omitted = "ResultsOmitted"
)

// limited returns the report of a namespace with the first results, all from the same source and without timestamps. The summary counts all results.
func limited(namespace string, results []openreports.ReportResult) openreports.Report {
	var report openreports.Report
	var size int
	for i, result := range results {
		summarize(&report.Summary, result.Result)
		if len(report.Results) < i || i == maxResults {
			continue // the last result says how many there are
		}
		result.Source = source
		result.Description = message.Clip(strings.ToValidUTF8(result.Description, "\uFFFD"), maxMessageBytes)
		if size += len(encode(result)); size <= maxBytes {
			report.Results = append(report.Results, result)
		}
	}
	if omitted := len(results) - len(report.Results); omitted > 0 {
		report.Summary.Skip++
		report.Results = append(report.Results, openreports.ReportResult{
			Source: source, Policy: "audit", Rule: Omitted, Result: "skip", Severity: "info", Properties: map[string]string{"omitted": strconv.Itoa(omitted)},
			Description: fmt.Sprintf("%d more results of this namespace are only counted; warrantgate audit prints all findings", omitted),
			// Policy Reporter shows only one of several results that are equal, and those about an object without a namespace elsewhere.
			Subjects: []corev1.ObjectReference{{APIVersion: "v1", Kind: "Namespace", Namespace: namespace, Name: namespace}},
		})
	}
	return report
}

func summarize(summary *openreports.ReportSummary, result openreports.Result) {
	switch result {
	case "pass":
		summary.Pass++
	case "fail":
		summary.Fail++
	case "warn":
		summary.Warn++
	case "error":
		summary.Error++
	}
}

// date gives each result the time of the same result in the stored report, or the current time. A time in the future, which only a tenant can
// have written, does not count.
func (w *Writer) date(report *openreports.Report, stored openreports.Report) {
	now := w.now().Unix()
	since := map[string]int64{}
	for _, result := range stored.Results {
		if at := result.Timestamp.Seconds; at > 0 && at <= now {
			result.Timestamp = metav1.Timestamp{}
			since[string(encode(result))] = at
		}
	}
	for i := range report.Results {
		result := &report.Results[i]
		at, known := since[string(encode(*result))]
		if !known {
			at = now
		}
		result.Timestamp.Seconds = at
	}
}

// decode returns a stored report. A report that cannot be decoded is empty, and is written again.
func decode(stored *unstructured.Unstructured) openreports.Report {
	var report openreports.Report
	if stored == nil || runtime.DefaultUnstructuredConverter.FromUnstructured(stored.Object, &report) != nil {
		return openreports.Report{}
	}
	return report
}

// digest identifies the content of a report without the timestamps.
func digest(report openreports.Report) [sha256.Size]byte {
	hash := sha256.New()
	hash.Write(encode(report.Source))
	hash.Write(encode(report.Summary))
	for _, result := range report.Results {
		result.Timestamp = metav1.Timestamp{}
		hash.Write(encode(result))
	}
	return [sha256.Size]byte(hash.Sum(nil))
}

func encode(value any) []byte {
	encoded, err := json.Marshal(value)
	if err != nil {
		return nil // these types have only strings, numbers, lists and maps
	}
	return encoded
}
