package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl/client"
	"flyball.dev/internal/inprocess"
)

// begin0 starts the control plane of a world, its objects, and the operator.
func (w *world) begin0(variant clean) error {
	ctx := context.Background()
	w.created = variant.created
	plane, err := w.base.Fork(ctx, controlplane.ForkOptions{WrapTransport: w.wrap, Without: w.idle})
	if err != nil {
		return err
	}
	w.plane = plane
	if w.origin, _, err = plane.Storage().Revisions(ctx); err != nil {
		return err
	}
	if o := inprocess.ObserverOf(plane.Config()); o != nil {
		w.replaced = o.Replaced()
	}
	if w.client, err = w.newClient(plane); err != nil {
		return err
	}
	if variant.ballast {
		if err := w.createAll(ballast()); err != nil {
			return err
		}
	}
	if w.watcher, err = plane.Storage().Watch(ctx, "", 0); err != nil {
		return err
	}
	if err := plane.StartControllers(); err != nil {
		return err
	}
	if err := w.createAll(w.scenario.Objects); err != nil {
		return err
	}
	if w.program != nil {
		if w.gateway, err = newGateway(w); err != nil {
			return err
		}
		if err := w.createAll(w.program.Objects); err != nil {
			return err
		}
	}
	w.run(nil)
	if variant.delay > 0 {
		time.Sleep(variant.delay)
	}
	w.trace = append(w.trace, event{at: w.now(), text: "the operator starts"})
	w.processes = make([]*process, w.operator.Replicas)
	for i := range w.processes {
		if err := w.startReplica(i, nil); err != nil {
			w.noteEnd(w.processes[i], startFailed, fmt.Errorf("the operator does not start: %w", advised(err)))
		}
	}
	w.lastChange = w.now()
	return nil
}

// createAll creates objects.
func (w *world) createAll(objects []client.Object) error {
	for _, obj := range objects {
		if err := w.client.Create(context.Background(), obj.DeepCopyObject().(client.Object)); err != nil {
			return fmt.Errorf("an object of the scenario: %w", advised(err))
		}
	}
	return nil
}

// advised adds to the error of a client what to do about it, if its kind is not known.
func advised(err error) error {
	switch {
	case meta.IsNoMatchError(err):
		return fmt.Errorf("%w: the cluster does not have this kind. Name the file of its CustomResourceDefinition in CRDPaths of the operator "+
			"(--crds of flyball lab), or add the definition to CRDs", err)
	case isNotRegistered(err):
		return fmt.Errorf("%w: the Scheme of the operator must have the Go type. Set Operator.Scheme, and add the type to it", err)
	}
	return err
}

// isNotRegistered reports whether an error says that a scheme lacks a Go type.
func isNotRegistered(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if runtime.IsNotRegisteredError(err) {
			return true
		}
	}
	return false
}

// stop ends all processes and the control plane. All actions go on at once.
func (w *world) stop() {
	w.mu.Lock()
	w.free = true
	pending := w.pending
	w.pending = nil
	w.mu.Unlock()
	for _, a := range pending {
		a.chosen <- verdict{}
	}
	for _, p := range w.all {
		if p.stop == nil {
			continue
		}
		p.stop()
		if w.program != nil {
			continue // its exit code after a signal says nothing
		}
		select {
		case err := <-p.done:
			if err != nil && !p.crashed && !w.deposed(p) {
				w.find(operatorFailed, "the manager of %s has ended with an error: %v", p.name, advised(err))
			}
		case <-time.After(2 * time.Minute):
			w.find(leak, "%s has not ended two minutes after its context", p.name)
		}
	}
	if w.gateway != nil {
		w.gateway.close()
	}
	if w.watcher != nil {
		w.watcher.Close()
	}
	if w.plane == nil {
		return
	}
	if err := w.plane.Stop(); err != nil {
		w.find(labFailed, "stopping the control plane: %v", err)
	}
}
