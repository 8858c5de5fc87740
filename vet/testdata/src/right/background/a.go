// Package background has goroutines of a runnable, which end with it.
package background

import (
	"context"
	"sync"
	"time"

	"api"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Prober asks the apps for their health, and hands changes over.
type Prober struct {
	client.Client
	Changes chan<- types.NamespacedName

	failures map[types.NamespacedName]int // of Start alone
}

// NeedLeaderElection is for the manager.
func (*Prober) NeedLeaderElection() bool { return true }

// Start probes until the manager stops.
func (p *Prober) Start(ctx context.Context) error {
	p.failures = map[types.NamespacedName]int{}
	keys := make(chan types.NamespacedName)
	var workers sync.WaitGroup
	for range 4 {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for key := range keys {
				select {
				case p.Changes <- key:
				case <-ctx.Done():
				}
			}
		}()
	}
	defer workers.Wait()
	defer close(keys)
	ticker := time.NewTicker(time.Minute)
	defer ticker.Stop()
	for {
		apps := &api.AppList{}
		if err := p.List(ctx, apps); err != nil {
			return err
		}
		for _, app := range apps.Items {
			key := types.NamespacedName{Namespace: app.Namespace, Name: app.Name}
			if p.failures[key]++; p.failures[key] < 3 {
				continue
			}
			select {
			case keys <- key:
			case <-ctx.Done():
				return nil
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

type Reconciler struct {
	client.Client
	Probes chan<- types.NamespacedName
}

func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	select {
	case r.Probes <- req.NamespacedName:
	default: // the next tick has it
	}
	return ctrl.Result{}, nil
}
