package manager

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/ctrl/client"
	metricsserver "flyball.dev/ctrl/metrics/server"
	"flyball.dev/ctrl/webhook"
)

func TestDeprecatedOptions(t *testing.T) {
	cached := &client.CacheOptions{DisableFor: []client.Object{&corev1.Node{}}}
	o := Options{
		MetricsBindAddress: ":1", Port: 2, ClientDisableCacheFor: []client.Object{&corev1.Secret{}},
		Client: client.Options{Cache: cached},
	}
	if err := o.replaceDeprecated(); err != nil {
		t.Fatal(err)
	}
	if o.Metrics.BindAddress != ":1" {
		t.Errorf("the address of metrics is %q", o.Metrics.BindAddress)
	}
	if server, ok := o.WebhookServer.(*webhook.DefaultServer); !ok || server.Options.Port != 2 {
		t.Errorf("the webhook server is %+v", o.WebhookServer)
	}
	if n := len(o.Client.Cache.DisableFor); n != 2 {
		t.Errorf("the cache is disabled for %d kinds, want 2", n)
	}
	if len(cached.DisableFor) != 1 {
		t.Error("the caller's options have changed")
	}
}

func TestContradictingOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"set only Metrics.BindAddress": {
			MetricsBindAddress: ":1", Metrics: metricsserver.Options{BindAddress: ":2"},
		},
		"set only the port of WebhookServer": {Port: 1, WebhookServer: webhook.NewServer(webhook.Options{Port: 2})},
	} {
		if err := o.replaceDeprecated(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}
