package main

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/examples/internal/exampletest"
	"flyball.dev/lab"
)

// TestLab explores what can go wrong while Migrations are executed and deleted. Whatever happens, no attempt is executed twice:
// a Job that is gone is not created again.
func TestLab(t *testing.T) {
	var jobs map[string]types.UID // by Migration and name
	exampletest.Lab(t, batch, lab.Scenario{
		Begin: func() { jobs = map[string]types.UID{} },
		Invariants: []lab.Invariant{{Name: "each attempt is executed once", Check: func(s *lab.State) error {
			for _, job := range s.All("Job.batch") {
				migration := metav1.GetControllerOf(job)
				if migration == nil {
					continue // the Job is somebody else's
				}
				key := string(migration.UID) + "/" + job.GetName()
				if first, ok := jobs[key]; ok && first != job.GetUID() {
					return fmt.Errorf("the Job %s of the Migration %s is created again", job.GetName(), migration.Name)
				}
				jobs[key] = job.GetUID()
			}
			return nil
		}}},
	}, nil)
}
