package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	"flyball.dev/ctrl/config"
	appv1 "flyball.dev/examples/appservice/api/v1"
	"flyball.dev/examples/internal/await"
	"flyball.dev/examples/internal/example"
	"flyball.dev/examples/internal/exampletest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTour(t *testing.T) { exampletest.Tour(t, appService) }

// TestNoWarnings lets minutes pass between what may happen to an AppService. The option Development finds
// nothing wrong.
func TestNoWarnings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		plane, err := controlplane.Start(context.WithoutCancel(t.Context()), controlplane.Options{})
		must(err)
		defer func() { must(plane.Stop()) }()
		w, err := example.NewWorld(t.Context(), appService, plane.Config())
		must(err)
		defer func() { must(w.Stop()) }()
		_, err = w.Start(t.Context(), func(o *ctrl.Options) {
			o.OnWarning = func(w config.Warning) { t.Error(w) }
		})
		must(err)

		ctx, c := t.Context(), client.WithFieldOwner(w.Client, "kubectl-edit")
		app := &appv1.AppService{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Finalizers: []string{"example.com/backup"}},
			Spec:       appv1.AppServiceSpec{Image: "nginx:1.29", Replicas: 2},
		}
		must(c.Create(ctx, app))
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
		merge := func(obj client.Object, patch string) {
			t.Helper()
			must(c.Patch(ctx, obj, client.RawPatch(types.MergePatchType, []byte(patch))))
		}
		for _, step := range []func(){
			func() { merge(app, `{"spec":{"replicas":4}}`) },
			func() { merge(deployment, `{"spec":{"replicas":9}}`) },
			func() { merge(deployment, `{"spec":{"replicas":7}}`) },
			func() { must(c.Delete(ctx, deployment)) },
			func() { merge(app, `{"spec":{"image":"nginx:1.30"}}`) },
			func() { must(c.Delete(ctx, app)) },
			func() { merge(app, `{"metadata":{"finalizers":null}}`) },
		} {
			time.Sleep(time.Minute)
			step()
		}
		time.Sleep(time.Hour)
		if err := c.Get(ctx, client.ObjectKeyFromObject(app), app); !apierrors.IsNotFound(err) {
			t.Errorf("the AppService was not deleted: %v", err)
		}
	})
}

func TestLocally(t *testing.T) {
	exampletest.Locally(t, appService,
		"kubectl get appservices", "Deployment created.", "Service created.", "Ready is True.")
}

func TestOnCluster(t *testing.T) {
	exampletest.OnCluster(t, appService, func(ctx context.Context, w *example.World) error {
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
	ended := filepath.Join(t.TempDir(), "kubeconfig")
	write(t, ended, `{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:1",
"extensions":[{"name":"flyball.dev/control-plane","extension":{"program":"appservice","directory":"/shop","pid":7,"started":"2026-01-01T00:00:00Z"}}]}}],
"contexts":[{"name":"c","context":{"cluster":"c"}}]}`)
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"an argument", []string{"up"}, `unknown argument "up"`},
		{"no such file", []string{"--kubeconfig", empty}, "cannot use the kubeconfig"},
		{"unreachable", []string{"--kubeconfig", unreachable}, "the cluster at http://127.0.0.1:1, of the kubeconfig " + unreachable + ", cannot be reached"},
		{"ended", []string{"--kubeconfig", ended}, "was started by appservice in /shop"},
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
