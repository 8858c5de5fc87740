package main

import (
	"testing"

	"flyball.dev/examples/internal/exampletest"
	"flyball.dev/lab"
)

// TestLab explores what can go wrong while a TrainingJob runs and is deleted.
func TestLab(t *testing.T) { exampletest.Lab(t, training, lab.Scenario{}, nil) }
