package main

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/examples/internal/exampletest"
	patchesv1 "flyball.dev/examples/patches/api/v1"
	"flyball.dev/lab"
)

// TestLab explores what can go wrong while a Deployment is overridden, also after somebody else has changed it. A change of the
// Override and back is another rollout, with other pods, so no user changes it by chance.
func TestLab(t *testing.T) {
	only := slices.DeleteFunc(lab.Faults(), func(f lab.Fault) bool { return f == lab.Change })
	web := metav1.ObjectMeta{Namespace: "default", Name: "web"}
	steps := slices.Insert(exampletest.Steps(t, patches), 2,
		lab.Update(&patchesv1.Override{ObjectMeta: web}, func(o *patchesv1.Override) { o.Spec.Force = true }),
		lab.Update(&appsv1.Deployment{ObjectMeta: web}, func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[0].Image = "intruder:1"
		}))
	runs, err := lab.Expression("the Deployment runs the image of its Override", `all("Override.patches.example.com").all(o,
		!o.spec.?force.orValue(false) || all("Deployment.apps").all(d,
			d.spec.template.spec.containers.exists(c, c.name == o.spec.container && c.image == o.spec.image)))`)
	if err != nil {
		t.Fatal(err)
	}
	runs.AtRest = true
	exampletest.Lab(t, patches, lab.Scenario{Only: only, Steps: steps, Invariants: []lab.Invariant{runs}}, nil)
}
