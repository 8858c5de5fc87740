package controlplane

import (
	"context"
	"fmt"

	"flyball.dev/ctrl/client"
)

// stagesManager is the field manager of the stages of Options.Controllers.
const stagesManager = "flyball"

// applyStages applies the stages, and the definition of their kind, as the administrator.
func (c *ControlPlane) applyStages() error {
	objects, err := c.options.Controllers.StageObjects()
	if err != nil || len(objects) == 0 {
		return err
	}
	cl, err := client.New(c.Config(), client.Options{})
	if err != nil {
		return err
	}
	for _, o := range objects {
		//lint:ignore SA1019 The objects of kwok's types have no apply configurations.
		if err := cl.Patch(context.Background(), o, client.Apply, client.FieldOwner(stagesManager), client.ForceOwnership); err != nil {
			return fmt.Errorf("%s %s: %w", o.GetObjectKind().GroupVersionKind().Kind, o.GetName(), err)
		}
	}
	return nil
}
