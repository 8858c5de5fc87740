package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "flyball.dev/examples/appservice/api/v1"
	"flyball.dev/examples/internal/await"
	"flyball.dev/examples/internal/example"
	"flyball.dev/examples/internal/exampletest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTour(t *testing.T) { exampletest.Tour(t, appService) }

func TestLocally(t *testing.T) {
	exampletest.Locally(t, appService,
		"kubectl get appservices", "Deployment created.", "Service created.", "Ready is True.")
}

func TestOnCluster(t *testing.T) {
	exampletest.OnCluster(t, appService, func(ctx context.Context, w *example.World) error {
		ctx, stop := context.WithTimeout(ctx, 20*time.Second)
		defer stop()
		sample := &appv1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hello"}}
		return await.Object(ctx, w.Client, sample, func(app *appv1.AppService) string {
			if !meta.IsStatusConditionTrue(app.Status.Conditions, appv1.ConditionReady) {
				return "the sample is not ready"
			}
			return ""
		})
	})
}

func TestErrors(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "kubeconfig")
	unreachable := filepath.Join(t.TempDir(), "kubeconfig")
	write(t, unreachable, `{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:1"}}],"contexts":[{"name":"c","context":{"cluster":"c"}}]}`)
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"an argument", []string{"up"}, `unknown argument "up"`},
		{"no such file", []string{"--kubeconfig", empty}, "cannot use the kubeconfig"},
		{"unreachable", []string{"--kubeconfig", unreachable}, "the cluster at http://127.0.0.1:1 cannot be reached"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := appService.Run(t.Context(), tt.args, &bytes.Buffer{})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
