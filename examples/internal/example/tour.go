package example

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controlplane"
)

// Namespace is the namespace of every tour.
const Namespace = "tour"

// stepTimeout is how long a step of a tour may take.
const stepTimeout = 20 * time.Second

// Step is one step of a tour.
type Step struct {
	description string
	run         func(context.Context) error
}

// NewStep returns a step with its description in the output. The function does the step and checks
// it against the API; its context ends when the step has taken too long.
func NewStep(description string, run func(context.Context) error) Step { return Step{description, run} }

// runTour runs the tour on a control plane of its own, without a socket.
func (e *Example) runTour(ctx context.Context, out io.Writer) (err error) {
	plane, err := controlplane.Start(context.WithoutCancel(ctx), controlplane.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	w, err := NewWorld(ctx, e, plane.Config())
	if err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}
	if err := w.Client.Create(ctx, namespace); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Stop()) }()
	return runSteps(ctx, e.Tour(w), out)
}

// runSteps runs the steps in order and writes a line with the duration of each. It returns the error
// of the first step that fails.
func runSteps(ctx context.Context, steps []Step, out io.Writer) error {
	started := time.Now()
	for i, s := range steps {
		start := time.Now()
		limited, cancel := context.WithTimeout(ctx, stepTimeout)
		err := s.run(limited)
		cancel()
		duration := float64(time.Since(start).Microseconds()) / 1000
		if err != nil {
			fmt.Fprintf(out, "FAIL %8.1f ms  %s\n", duration, s.description)
			return fmt.Errorf("step %d, %q: %w", i+1, s.description, err)
		}
		fmt.Fprintf(out, "  ok %8.1f ms  %s\n", duration, s.description)
	}
	fmt.Fprintf(out, "All %d steps passed in %.2f s.\n", len(steps), time.Since(started).Seconds())
	return nil
}
