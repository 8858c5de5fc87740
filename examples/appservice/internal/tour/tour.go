// Package tour runs a scenario with an AppService and checks each step against the API. It waits by
// watching and never polls.
package tour

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/client-go/rest"

	"flyball.dev/ctrl/client"
	"flyball.dev/examples/appservice/internal/operator"
)

// stepTimeout is how long a step may take.
const stepTimeout = 20 * time.Second

// step is one step of the scenario, with its description in the output.
type step struct {
	description string
	run         func(*world, context.Context) error
}

// steps are the steps in order; each starts where the one before it has ended.
var steps = []step{
	{"the operator starts", (*world).startOperator},
	{"an AppService is created: Deployment, ReplicaSet, 2 Pods and Service appear", (*world).create},
	{"the Pods become ready, and then the AppService", (*world).becomesReady},
	{"replicas 2 → 4: 4 Pods", (*world).scale},
	{"the Deployment's image is changed by a user: restored, with an event", (*world).changeImageByHand},
	{"the Deployment is deleted by a user: created again", (*world).deleteDeploymentByHand},
	{"50 changes while the operator is stopped: it starts again and converges", (*world).changeWhileStopped},
	{"replicas: 1 is rejected, and nothing changes", (*world).rejectOneReplica},
	{"a second operator waits while the first holds the Lease", (*world).secondWaits},
	{"the first stops: the second takes over", (*world).secondTakesOver},
	{"an AppService with a finalizer is deleted: gone when the finalizer is removed", (*world).finalizer},
	{"the AppService is deleted: its dependents are garbage collected", (*world).deleteEverything},
	{"the namespace is deleted: nothing is left", (*world).deleteNamespace},
}

// Run runs the scenario in a namespace of its own of a cluster that serves AppServices, and writes
// a line with the duration of each step. It returns the error of the first step that fails.
func Run(ctx context.Context, cfg *rest.Config, out io.Writer) (err error) {
	scheme, err := operator.NewScheme()
	if err != nil {
		return err
	}
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	w := &world{cfg: cfg, c: c}
	defer func() { err = errors.Join(err, w.stopOperator()) }()
	started := time.Now()
	for i, s := range steps {
		start := time.Now()
		limited, cancel := context.WithTimeout(ctx, stepTimeout)
		err := s.run(w, limited)
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
