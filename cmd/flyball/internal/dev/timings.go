package dev

import (
	"strings"
	"sync"
	"time"
)

// timings are how long the steps of a cycle took. Steps may run at the same time.
type timings struct {
	mu    sync.Mutex
	steps []step
}

// step is a step that has ended.
type step struct {
	name string
	took time.Duration
}

// start starts a step, which the returned function ends.
func (t *timings) start(name string) (end func()) {
	start := time.Now()
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.steps = append(t.steps, step{name, time.Since(start)})
	}
}

// String returns the steps with their times.
func (t *timings) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	parts := make([]string, len(t.steps))
	for i, s := range t.steps {
		parts[i] = s.name + " " + seconds(s.took)
	}
	return strings.Join(parts, ", ")
}
