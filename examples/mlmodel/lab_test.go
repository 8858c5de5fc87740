package main

import (
	"testing"

	"flyball.dev/examples/internal/exampletest"
	"flyball.dev/lab"
)

// TestLab explores what can go wrong while an MLModelDeployment is created and deleted.
func TestLab(t *testing.T) { exampletest.Lab(t, mlModel, lab.Scenario{}, nil) }
