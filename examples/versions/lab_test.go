package main

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"flyball.dev/ctrl"
	"flyball.dev/examples/internal/exampletest"
	netv1 "flyball.dev/examples/versions/api/v1"
	"flyball.dev/lab"
)

// TestLab explores what can go wrong while the ConfigMap of a Proxy is written. All Proxies are in the storage version, and no webhook
// runs.
func TestLab(t *testing.T) {
	proxy := &netv1.Proxy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "edge"},
		Spec:       netv1.ProxySpec{Host: "edge.example.com", Port: new(int32(8443))},
	}
	proxy.Spec.SetDefaults()
	exampletest.Lab(t, newExample(), lab.Scenario{Steps: []lab.Step{
		lab.Create(proxy),
		lab.Update(proxy, func(p *netv1.Proxy) { p.Spec.Host = "other.example.com" }),
		lab.Remove(proxy),
		lab.Create(proxy),
	}}, func(_ *rest.Config, mgr ctrl.Manager) error { return setUpControllers(mgr, 2) })
}
