package controlplane_test

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controlplanetest"
)

// logsOf returns a log.
func logsOf(t *testing.T, client kubernetes.Interface, pod string, o corev1.PodLogOptions) string {
	t.Helper()
	stream, err := client.CoreV1().Pods("default").GetLogs(pod, &o).Stream(t.Context())
	if err != nil {
		return "error: " + err.Error()
	}
	defer stream.Close()
	text, err := io.ReadAll(stream)
	if err != nil {
		return "error: " + err.Error()
	}
	return string(text)
}

func TestLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var warnings controlplanetest.Warnings
		plane := controlplanetest.Start(t, controlplane.Options{})
		cfg := plane.Config()
		cfg.WarningHandler = &warnings
		client := controlplanetest.ClientFor(t, cfg)
		pod := sleeper("web")
		pod.Spec.Containers[0].Command = []string{"sh", "-c", "for i in 1 2 3 4; do echo line $i; sleep 10; done; exit 1"}
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "silent", Image: "nginx"})
		started := createRunning(t, client, pod).Status.ContainerStatuses[0].State.Running.StartedAt
		follow, err := client.CoreV1().Pods("default").GetLogs("web", &corev1.PodLogOptions{Container: "c", Follow: true}).Stream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer follow.Close()
		lines := bufio.NewScanner(follow)
		for i := 1; i <= 2 && lines.Scan(); i++ {
			if lines.Text() != fmt.Sprint("line ", i) {
				t.Errorf("a followed line is %q", lines.Text())
			}
		}
		time.Sleep(15 * time.Second) // virtual
		two, one, bytes, recently := int64(2), int64(1), int64(9), int64(6)
		since := metav1.NewTime(started.Add(9 * time.Second))
		for _, tc := range []struct {
			o    corev1.PodLogOptions
			want string
		}{
			{corev1.PodLogOptions{Container: "c"}, "line 1\nline 2\nline 3\n"},
			{corev1.PodLogOptions{Container: "c", TailLines: &two}, "line 2\nline 3\n"},
			{corev1.PodLogOptions{Container: "c", LimitBytes: &bytes}, "line 1\nli"},
			{corev1.PodLogOptions{Container: "c", SinceSeconds: &recently}, "line 3\n"},
			{corev1.PodLogOptions{Container: "c", SinceTime: &since, TailLines: &one}, "line 3\n"},
			{corev1.PodLogOptions{Container: "silent"}, ""},
			{corev1.PodLogOptions{}, `error: a container name must be specified for pod web, choose one of: [c silent]`},
			{corev1.PodLogOptions{Container: "none"}, `error: container none is not valid for pod web`},
			{corev1.PodLogOptions{Container: "c", Previous: true}, `error: previous terminated container "c" in pod "web" not found`},
		} {
			if got := logsOf(t, client, "web", tc.o); got != tc.want {
				t.Errorf("%+v: %q, want %q", tc.o, got, tc.want)
			}
		}
		if got := logsOf(t, client, "web", corev1.PodLogOptions{Container: "c", Timestamps: true, TailLines: &one}); !strings.HasSuffix(got, "Z line 3\n") {
			t.Errorf("a line with its time is %q", got)
		}
		if got := warnings.Take(); len(got) != 1 || !strings.Contains(got[0], `nothing executes container "silent" of pod "web"`) {
			t.Errorf("the warnings are %q", got)
		}
		rest, _ := io.ReadAll(follow) // until the container has ended
		_ = rest
		if got := logsOf(t, client, "web", corev1.PodLogOptions{Container: "c"}); got != "line 1\nline 2\nline 3\nline 4\n" {
			t.Errorf("the log of a container that has ended is %q", got)
		}
		// A container that waits.
		waiting := sleeper("waiting")
		waiting.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "busybox", Command: []string{"sleep", "1d"}}}
		controlplanetest.Must[*corev1.Pod](t)(client.CoreV1().Pods("default").Create(t.Context(), waiting, metav1.CreateOptions{}))
		time.Sleep(time.Second) // virtual
		if got := logsOf(t, client, "waiting", corev1.PodLogOptions{Container: "c"}); got != `error: container "c" in pod "waiting" is waiting to start: PodInitializing` {
			t.Errorf("the log of a container that waits: %s", got)
		}
		_, _, err = run(t.Context(), client, inProcessExecutors(plane)["WebSocket"], "waiting", "", false, "true")
		if err == nil || !strings.Contains(err.Error(), `container not found ("c")`) {
			t.Errorf("a command in a container that waits: %v", err)
		}
	})
}
