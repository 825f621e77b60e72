//go:build e2e

package suite

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"

	. "github.com/onsi/ginkgo/v2"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/ptr"
)

// Webhook serves a webhook until the end of the spec or container that calls Webhook, and returns how an API server calls it. answer returns the
// response to a request, without its UID. Its context ends when the API server closes the connection.
func Webhook(answer func(context.Context, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse) admissionregistrationv1.WebhookClientConfig {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer GinkgoRecover()
		var review admissionv1.AdmissionReview
		content, err := io.ReadAll(r.Body)
		if err := errors.Join(err, json.Unmarshal(content, &review)); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		response := answer(r.Context(), review.Request)
		response.UID = review.Request.UID
		_ = json.NewEncoder(w).Encode(admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: response})
	}))
	DeferCleanup(server.Close)
	DeferCleanup(server.CloseClientConnections)
	return admissionregistrationv1.WebhookClientConfig{
		URL: ptr.To(server.URL), CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}
}
