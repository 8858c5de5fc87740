package webhook_test

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"flyball.dev/ctrl/webhook"
	"flyball.dev/ctrl/webhook/admission"
)

type noDefaults struct{}

func (noDefaults) Default(context.Context, *corev1.ConfigMap) error { return nil }

// BenchmarkServer measures small reviews over HTTPS on loopback, client included, on all
// processors.
func BenchmarkServer(b *testing.B) {
	const review = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","operation":"CREATE",` +
		`"object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"cm"},"data":{"a":"1"}}}}`
	listener := listen(b)
	server := webhook.NewServer(webhook.Options{Listener: listener, SelfSigned: &webhook.SelfSigned{}, CertDir: b.TempDir()}).(*webhook.DefaultServer)
	server.Register("/bench", admission.WithDefaulter(clientgoscheme.Scheme, noDefaults{}))
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	if !server.WaitForReady(ctx) {
		b.Fatal("the server did not start")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	c := &http.Client{Transport: transport}
	b.ReportAllocs()
	b.SetParallelism(4)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			resp, err := c.Post("https://"+listener.Addr().String()+"/bench", "application/json", strings.NewReader(review))
			if err != nil {
				b.Error(err)
				return
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || !strings.Contains(string(body), `"allowed":true`) {
				b.Errorf("got %s, %v", body, err)
				return
			}
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "admissions/s")
	transport.CloseIdleConnections()
	cancel()
	if err := <-ended; err != nil {
		b.Error(err)
	}
}
