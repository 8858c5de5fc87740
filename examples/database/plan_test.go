package main

import (
	"testing"

	"flyball.dev/examples/database/internal/backup"
	"flyball.dev/examples/internal/exampletest"
)

// TestPlan compares plans for changes with what happens.
func TestPlan(t *testing.T) {
	service := backup.New(backup.Settings{})
	exampletest.Plan(t, newExample(service), setUpWith(service), `{"spec":{"replicas":2}}`)
}
