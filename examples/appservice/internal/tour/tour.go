// Package tour runs the story of an AppService by itself and checks each step against the API. It
// learns by watching that something has come true; it neither sleeps nor asks again and again.
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

// patience is how long a step may take before it has failed.
const patience = 20 * time.Second

type step struct {
	says string
	do   func(*world, context.Context) error
}

var steps = []step{
	{"the operator starts", (*world).startOperator},
	{"an AppService is created: Deployment, ReplicaSet, 2 Pods and Service appear", (*world).create},
	{"the Pods become ready, and then the AppService", (*world).becomesReady},
	{"replicas 2 → 4: 4 Pods", (*world).scale},
	{"the Deployment's image is changed by hand: put back, and an event says so", (*world).changeImageByHand},
	{"the Deployment is deleted by hand: made again", (*world).deleteDeploymentByHand},
	{"50 changes while the operator is stopped: it starts again and converges", (*world).changeWhileStopped},
	{"replicas: 1 is rejected, and nothing changes", (*world).rejectOneReplica},
	{"a second operator waits while the first holds the Lease", (*world).secondWaits},
	{"the first stops: the second takes over", (*world).secondTakesOver},
	{"an AppService with a finalizer is deleted: it goes when the finalizer is removed", (*world).finalizer},
	{"the AppService is deleted: everything it owned is collected", (*world).deleteEverything},
	{"the namespace is deleted: nothing is left", (*world).deleteNamespace},
}

// Run runs the tour against a cluster that has the kind AppService, in a namespace of its own, and
// writes one line a step with the step's time. It ends with the first step that does not hold.
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
	began := time.Now()
	for i, s := range steps {
		start := time.Now()
		limited, cancel := context.WithTimeout(ctx, patience)
		err := s.do(w, limited)
		cancel()
		took := float64(time.Since(start).Microseconds()) / 1000
		if err != nil {
			fmt.Fprintf(out, "FAIL %8.1f ms  %s\n", took, s.says)
			return fmt.Errorf("step %d of the tour, %q: %w", i+1, s.says, err)
		}
		fmt.Fprintf(out, "  ok %8.1f ms  %s\n", took, s.says)
	}
	fmt.Fprintf(out, "All %d steps held, in %.2f s.\n", len(steps), time.Since(began).Seconds())
	return nil
}
