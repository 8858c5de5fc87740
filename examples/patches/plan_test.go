package main

import (
	"testing"

	"flyball.dev/examples/internal/exampletest"
)

// TestPlan compares plans for changes with what happens.
func TestPlan(t *testing.T) {
	exampletest.Plan(t, patches, nil, `{"spec":{"image":"app:2"}}`)
}
