// Package helper copies and patches objects of other packages.
package helper

import (
	"context"
	"reflect"

	"api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Copy returns a copy for the caller.
func Copy(app *api.App) *api.App { return app.DeepCopy() }

// Patcher patches what differs from the copy that it has taken.
type Patcher struct {
	client client.Client
	before *api.App
}

func NewPatcher(c client.Client, app *api.App) *Patcher { return &Patcher{c, app.DeepCopy()} }

// Patch patches the object, and its status with the generation.
func (p *Patcher) Patch(ctx context.Context, app *api.App) error {
	app.Status.ObservedGeneration = app.Generation
	if reflect.DeepEqual(p.before.Status, app.Status) {
		return nil
	}
	return p.client.Status().Patch(ctx, app, client.MergeFrom(p.before))
}
