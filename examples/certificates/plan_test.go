package main

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"flyball.dev/examples/internal/exampletest"
)

// TestPlan compares plans for changes with what happens, with a certificate that is not renewed meanwhile.
func TestPlan(t *testing.T) {
	cert := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "certs.example.com/v1", "kind": "Certificate",
		"metadata": map[string]any{"namespace": "default", "name": "shop"},
		"spec":     map[string]any{"dnsNames": []any{"shop.example.com"}, "secretName": "shop-tls", "duration": "600h", "renewBefore": "10h"}}}
	exampletest.Plan(t, newExample(newIssuer(t)), nil, `{"spec":{"dnsNames":["shop.example.com","www.example.com"]}}`, cert)
}
