package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl"
	"flyball.dev/ctrl/client"
	ctrlconfig "flyball.dev/ctrl/config"
	appv1 "flyball.dev/examples/appservice/api/v1"
	"flyball.dev/examples/appservice/internal/await"
	"flyball.dev/examples/appservice/internal/operator"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTour(t *testing.T) {
	var out bytes.Buffer
	err := run(t.Context(), []string{"--tour"}, &out)
	t.Log("\n" + out.String())
	if err != nil {
		t.Fatal(err)
	}
}

// TestNoWarnings lets hours pass between what may happen to an AppService. The option Development finds
// nothing wrong.
func TestNoWarnings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane, err := controlplane.Start(context.WithoutCancel(t.Context()), controlplane.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer plane.Stop()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(install(t.Context(), plane.Config()))
		mgr, err := operator.New(plane.Config(), operator.Options{
			MetricsAddress: "0", ProbeAddress: "0", LeaderElect: true, Logger: logr.Discard(),
			Change: func(o *ctrl.Options) {
				o.LeaderElectionNamespace = "default"
				o.OnWarning = func(w ctrlconfig.Warning) { t.Error(w) }
			},
		})
		must(err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- operator.Run(ctx, mgr) }()
		defer func() { cancel(); must(<-done) }()

		c, err := client.New(plane.Config(), client.Options{Scheme: mgr.GetScheme(), FieldOwner: "kubectl-edit"})
		must(err)
		app := &appv1.AppService{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Finalizers: []string{"example.com/backup"}},
			Spec:       appv1.AppServiceSpec{Image: "nginx:1.29", Replicas: 2},
		}
		must(c.Create(ctx, app))
		deployment := &appsv1.Deployment{ObjectMeta: app.ObjectMeta}
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

// TestLocally runs the command without flags, and stops it when the sample is ready.
func TestLocally(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("KUBECONFIG", "")
	ctx, cancel := context.WithCancelCause(t.Context())
	out := &seeker{text: "Ready is True.", found: func() { cancel(errors.New("interrupted")) }}
	if err := run(ctx, nil, out); err != nil {
		t.Fatalf("%v\n%s", err, out.all.String())
	}
	for _, want := range []string{"kubectl get appservices", "Deployment created.", "Service created.", "Ready is True.", "Stopped."} {
		if !strings.Contains(out.all.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.all.String())
		}
	}
	info, err := os.Stat(filepath.Join(".flyball", "kubeconfig"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the kubeconfig: %v, %v", info, err)
	}
}

// seeker calls found when the text is written to it.
type seeker struct {
	all   bytes.Buffer
	text  string
	found func()
}

func (s *seeker) Write(p []byte) (int, error) {
	n, err := s.all.Write(p)
	if strings.Contains(s.all.String(), s.text) {
		s.found()
	}
	return n, err
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
			err := run(t.Context(), tt.args, &bytes.Buffer{})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestOnCluster runs the operator against the cluster of a kubeconfig, over HTTPS.
func TestOnCluster(t *testing.T) {
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer plane.Stop()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	write(t, file, string(plane.Kubeconfig()))
	args := []string{"--kubeconfig", file, "--leader-elect", "--zap-log-level", "error"}
	if err := run(t.Context(), args, io.Discard); err == nil || !strings.Contains(err.Error(), "has no AppServices") {
		t.Fatalf("without the definition: %v", err)
	}
	if err := install(t.Context(), plane.Config()); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- run(ctx, args, io.Discard) }()
	if err := createSample(ctx, plane.Config(), io.Discard); err != nil {
		t.Fatal(err)
	}
	scheme, err := operator.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.NewWithWatch(plane.Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	limited, stop := context.WithTimeout(ctx, 20*time.Second)
	defer stop()
	if err := await.Until(limited, c, &appv1.AppServiceList{}, func(all []*appv1.AppService) string {
		if len(all) != 1 || !meta.IsStatusConditionTrue(all[0].Status.Conditions, appv1.ConditionReady) {
			return "the sample is not ready"
		}
		return ""
	}); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
