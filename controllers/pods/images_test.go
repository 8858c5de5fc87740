package pods_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"flyball.dev/controllers"
	"flyball.dev/controlplane/controllerstest"
	"flyball.dev/ctrl/client"
)

func TestEventsOfAMissingImage(t *testing.T) {
	controllerstest.InVirtualTime(t, controllers.Options{}, func(e controllerstest.Env) {
		e.CreateAll(controllerstest.Pod("bad", "webserver:404"))
		e.WaitIdle()
		const failure = `rpc error: code = NotFound desc = failed to pull and unpack image "docker.io/library/webserver:404": ` +
			`failed to resolve reference "docker.io/library/webserver:404": docker.io/library/webserver:404: not found`
		e.WantEvents("Pod", "bad",
			`Normal Pulling kubelet spec.containers{web}: Pulling image "webserver:404"`,
			`Warning Failed kubelet spec.containers{web}: Failed to pull image "webserver:404": `+failure,
			"Warning Failed kubelet spec.containers{web}: Error: ErrImagePull",
			`Normal BackOff kubelet spec.containers{web}: Back-off pulling image "webserver:404"`,
			"Warning Failed kubelet spec.containers{web}: Error: ImagePullBackOff",
			"Normal Scheduled default-scheduler: Successfully assigned default/bad to flyball")
		bad := e.Pod("bad")
		if s := bad.Status.ContainerStatuses[0].State.Waiting; bad.Status.Phase != corev1.PodPending || s == nil || s.Reason != "ImagePullBackOff" {
			t.Errorf("status %+v", bad.Status)
		}

		before := client.MergeFrom(bad.DeepCopy())
		bad.Spec.Containers[0].Image = "webserver:1"
		e.Must(e.Patch(e.Context(), bad, before))
		e.WaitIdle()
		e.WantScheduled("bad", controllerstest.OnFlyball)
		if s := e.Pod("bad").Status.ContainerStatuses[0]; !s.Ready || s.RestartCount != 0 {
			t.Errorf("status %+v", s)
		}
	})
}
