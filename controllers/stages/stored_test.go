package stages_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controllers"
	"flyball.dev/controllers/stages"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/storage/memory"
	"flyball.dev/storage/storagetest"
)

// TestStoredStages starts control planes on one storage, with the controller of stages and without. Stored stages play pods only
// with the controller.
func TestStoredStages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		defer store.Close()
		start := func(o controllers.Options, test func(e controllerstest.Env)) {
			controllerstest.WithPlane(t, controlplane.Options{Storage: storagetest.Kept{Store: store}, Controllers: o}, test)
		}
		phase := func(e controllerstest.Env, name string, want corev1.PodPhase) {
			t.Helper()
			e.WaitIdle()
			if got := e.Pod(name).Status.Phase; got != want {
				t.Errorf("%s is %s, want %s", name, got, want)
			}
		}
		start(controllers.Options{Stages: stages.New()}, func(e controllerstest.Env) {
			e.CreateAll(stageOf(t, "ready", strings.Replace(readyStage, "5000", "3600000", 1))) // an hour
			e.WaitIdle()
			e.CreateAll(controllerstest.PodOn("flyball", "default", "first"))
			phase(e, "first", corev1.PodPending)
		})
		start(controllers.Options{}, func(e controllerstest.Env) {
			phase(e, "first", corev1.PodRunning)
			if got := condition(e, "ready"); got != "True Valid: " {
				t.Errorf("the condition of the stored stage is %q", got)
			}
		})
		start(controllers.Options{Stages: stages.New()}, func(e controllerstest.Env) {
			e.CreateAll(controllerstest.PodOn("flyball", "default", "second"))
			phase(e, "second", corev1.PodPending)
			time.Sleep(2 * time.Hour) // virtual
			phase(e, "second", corev1.PodRunning)
		})
	})
}
