package main

import (
	"testing"

	"go.uber.org/goleak"

	"flyball.dev/examples/internal/exampletest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTour(t *testing.T) { exampletest.Tour(t, sidecar) }

func TestLocally(t *testing.T) { exampletest.Locally(t, sidecar, "kubectl run meshed") }
