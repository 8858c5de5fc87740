package controllers_test

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/client/interceptor"
)

// TestDeploymentOfTheSameName replaces a Deployment by another of the same name just before the
// controller writes the revision of the old one, which must not reach the new one.
func TestDeploymentOfTheSameName(t *testing.T) {
	var responses []error
	withController(t, "deployment-controller", func(e env) interceptor.Funcs {
		return interceptor.Funcs{
			SubResourceUpdate: func(ctx context.Context, c client.Client, name string, obj client.Object,
				opts ...client.SubResourceUpdateOption) error {
				if _, ok := obj.(*appsv1.Deployment); ok && responses == nil {
					e.must(e.Delete(ctx, deployment(3, "a"), client.PropagationPolicy(background)))
					e.create(deployment(3, "b"))
				}
				err := c.SubResource(name).Update(ctx, obj, opts...)
				responses = append(responses, err)
				return err
			},
		}
	}, func(e env) {
		e.create(deployment(3, "a"))
		e.waitIdle()
		if len(responses) < 2 || !apierrors.IsConflict(responses[0]) || responses[len(responses)-1] != nil {
			t.Errorf("the responses were %v", responses)
		}
		e.wantSets("1 a 3", "1 b 3")
	})
}
