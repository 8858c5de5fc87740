package example

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"flyball.dev/controlplane"
	"flyball.dev/ctrl"
	"flyball.dev/ctrl/console"
	"flyball.dev/internal/kubeconfig"
)

// runLocally runs the operator with a control plane of its own until ctx ends. The control plane
// does not end with ctx but after the manager, which needs it to finish its reconciles and to
// release its lease.
func (e *Example) runLocally(ctx context.Context, f flags, out io.Writer) (err error) {
	began := time.Now()
	plane, err := controlplane.Start(context.WithoutCancel(ctx), controlplane.Options{
		Listen: "127.0.0.1:0", KubeconfigFile: kubeconfig.DefaultPath,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	fmt.Fprintf(out, "A Kubernetes control plane runs in this process, at %s (%d ms).\n", plane.URL(),
		time.Since(began).Milliseconds())
	ctx, cancel := untilEnd(ctx, plane)
	defer cancel()
	w, err := NewWorld(ctx, e, plane.Config())
	if err != nil {
		return err
	}
	var changed error
	mgr, err := e.newManager(w.account, f, func(o *ctrl.Options) {
		o.LeaderElectionNamespace = metav1.NamespaceDefault
		o.Console = console.New(console.Options{URLFile: console.DefaultURLFile, OnURL: func(url string) {
			fmt.Fprintf(out, "The console is at %s\n", url)
		}})
		changed = e.onLoopback(o)
	})
	if err := errors.Join(changed, err); err != nil {
		return err
	}
	operator := start(ctx, mgr)
	defer func() { err = errors.Join(err, operator.Stop()) }()
	if err := operator.Elected(ctx); err != nil {
		return interrupted(ctx, err)
	}
	fmt.Fprintf(out, "The operator is running. %s\n", e.Does)
	samples, err := w.CreateSamples(ctx)
	if err != nil {
		return interrupted(ctx, err)
	}
	for _, sample := range samples {
		fmt.Fprintf(out, "%s %s is created.\n", sample.GetKind(), sample.GetName())
	}
	fmt.Fprintf(out, invitation, kubeconfig.DefaultPath, indented(e.Invitation))
	if err := operator.Wait(); err != nil {
		return err
	}
	fmt.Fprintln(out, "Stopped.")
	return nil
}

// interrupted returns err, or nil if its cause is that ctx has ended.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// untilEnd returns a context that ends with ctx, and when the control plane ends by itself.
func untilEnd(ctx context.Context, plane *controlplane.ControlPlane) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-plane.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// invitation is printed when the samples are created. Its arguments are the path of the kubeconfig
// and the commands.
const invitation = `
Try this in another terminal, and see here what the operator does:

  export KUBECONFIG=%s
%s

Ctrl-C stops everything.

`

// indented indents the lines of a text.
func indented(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ")
}
