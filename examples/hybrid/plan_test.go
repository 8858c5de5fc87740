package main

import (
	"testing"

	"flyball.dev/examples/hybrid/internal/flagservice"
	"flyball.dev/examples/internal/exampletest"
)

// TestPlan compares plans for changes with what happens.
func TestPlan(t *testing.T) {
	service := flagservice.New()
	service.Set("shop", map[string]string{"dark-mode": "off"})
	exampletest.Plan(t, newExample(service, nil, ""), setUpWith(&service), `{"spec":{"interval":"5s"}}`)
}
