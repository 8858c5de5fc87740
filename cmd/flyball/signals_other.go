//go:build !unix

package main

import (
	"os"
	"os/signal"

	"flyball.dev/cmd/flyball/internal/hostprocess"
)

// signals ignore Ctrl-C, which the console sends to the program too.
type signals struct{}

func catchSignals() signals {
	signal.Ignore(os.Interrupt)
	return signals{}
}

func (signals) passTo(*hostprocess.Process) {}

func (signals) stop() { signal.Reset(os.Interrupt) }
