package main

import (
	"testing"
	"time"

	"flyball.dev/examples/internal/exampletest"
	"flyball.dev/examples/securestorage/internal/cloud/cloudserver"
	"flyball.dev/examples/securestorage/internal/controller"
)

// TestPlan compares plans for changes with what happens.
func TestPlan(t *testing.T) {
	server, options := cloudserver.New(), controller.Options{PollInterval: 30 * time.Second, ResyncInterval: time.Minute}
	exampletest.Plan(t, newExample(server, nil, "", &options), setUpWith(&server, options), `{"spec":{"key":"key-2"}}`)
}
