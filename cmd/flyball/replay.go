package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"flyball.dev/cmd/flyball/internal/progress"
	"flyball.dev/cmd/flyball/internal/terminal"
	"flyball.dev/controlplane"
	"flyball.dev/internal/kubeconfig"
	"flyball.dev/record"
	"flyball.dev/record/restore"
	"flyball.dev/storage/memory"
)

// replayFlags are the flags of flyball replay.
type replayFlags struct {
	at, kubeconfig, listen string
	speed                  float64
	controllers            bool
	without                []string
}

// replayCommand returns the command "flyball replay".
func replayCommand() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Serve a recorded cluster again, as it was at any moment",
		Long: `Serve a recorded cluster again, as it was at any moment: a control plane with the objects of the
recording, with their UIDs, resource versions and status. kubectl and operators use it like any
cluster; what they change is in memory alone, and the recording stays as it is.

The cluster stands still, unless --speed says how fast the recorded changes go on. No controller
runs, unless --controllers starts the ones of Kubernetes, which then do what the recorded cluster
did not need: simulate pods, for instance. Webhooks of the recorded cluster are called at their
addresses, which probably do not answer; --without leaves them out.

--at is a time of day such as 14:03:07, a date with a time such as 2026-11-26T14:03:07Z, a
duration after the beginning such as +90s or before the end such as -5m, or end, the default.`,
		Example: `  flyball replay incident.recording --at 14:03:07
  flyball replay incident.recording --at +10m --speed 4
  flyball replay incident.recording --without validatingwebhookconfigurations,mutatingwebhookconfigurations
  kubectl --kubeconfig .flyball/kubeconfig get pods --all-namespaces --watch`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			setUpLogging(0)
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args[0])
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.at, "at", "end", "the moment")
	flags.Float64Var(&f.speed, "speed", 0, "how many seconds of the recording take a second; 0 stands still")
	flags.BoolVar(&f.controllers, "controllers", false, "run the controllers of Kubernetes, while the recording stands still")
	flags.StringSliceVar(&f.without, "without", nil, "resources to leave out, such as leases.coordination.k8s.io")
	flags.StringVar(&f.kubeconfig, "kubeconfig", kubeconfig.DefaultPath, "the file to write the administrator's kubeconfig to")
	flags.StringVar(&f.listen, "listen", "127.0.0.1:0", "the address and port to listen on; port 0 takes a free one")
	cmd.MarkFlagsMutuallyExclusive("speed", "controllers")
	refuseEmpty(flags, "at", "without", "kubeconfig", "listen")
	return cmd
}

// run serves a recording.
func (f *replayFlags) run(ctx context.Context, out, errs io.Writer, path string) error {
	if f.speed < 0 {
		return errors.New("--speed must not be negative")
	}
	began := time.Now()
	stopProgress := progress.Start(errs, progress.Doing("reading "+path))
	m, file, err := record.ReadMoment(path, f.at)
	stopProgress()
	if err != nil {
		return err
	}
	defer file.Close()
	without, err := f.leftOut(m)
	if err != nil {
		return err
	}
	storage, err := restore.Storage(m, without, memory.Options{CompressAfter: compressAfter})
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	plane, err := controlplane.Start(ctx, controlplane.Options{Listen: f.listen, KubeconfigFile: f.kubeconfig, Storage: storage,
		WithoutControllers: !f.controllers, Shared: f.speed > 0})
	if err != nil {
		return err
	}
	if err := f.tellMissing(ctx, errs, plane, m, without); err != nil {
		return errors.Join(err, plane.Stop())
	}
	fmt.Fprintf(out, "ready in %d ms at %s: %d objects at %s; try: kubectl --kubeconfig %s get pods --all-namespaces\n",
		time.Since(began).Milliseconds(), plane.URL(), len(m.Objects), m.Time.Local().Format("2006-01-02 15:04:05.000"), f.kubeconfig)
	freeAfterStart()
	if f.speed > 0 {
		err = f.play(ctx, out, errs, plane, m, file, without)
	}
	if err == nil {
		select {
		case <-ctx.Done():
		case <-plane.Done():
		}
	}
	return errors.Join(err, plane.Stop())
}

// play lets the recording go on until its end.
func (f *replayFlags) play(ctx context.Context, out, errs io.Writer, plane *controlplane.ControlPlane, m *record.Moment, file *record.File,
	without func(schema.GroupResource) bool) error {
	now := m.Time
	p := &restore.Player{Storage: plane.Storage(), Speed: f.speed, Without: without, Played: func(e record.Entry) { now = e.Time }}
	if terminal.Is(errs) {
		start, from := time.Now(), m.Time
		defer progress.Start(errs, func() string {
			return "it is " + from.Add(time.Duration(float64(time.Since(start))*f.speed)).Local().Format(time.TimeOnly)
		})()
	}
	switch err := p.Play(ctx, m.Time, file.Next); {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return fmt.Errorf("after %s: %w", now.Local().Format(time.RFC3339), err)
	}
	fmt.Fprintf(out, "the recording ends at %s; the control plane goes on until Ctrl-C\n", now.Local().Format("2006-01-02 15:04:05.000"))
	return nil
}

// leftOut returns a function that reports whether a resource is left out. It fails if a resource is not in the recording.
func (f *replayFlags) leftOut(m *record.Moment) (func(schema.GroupResource) bool, error) {
	var without []schema.GroupResource
	for _, name := range f.without {
		found := false
		for r := range m.Resources {
			if isResource(r, name) {
				without, found = append(without, r), true
			}
		}
		if !found {
			return nil, fmt.Errorf("--without: the recording has no resource %q", name)
		}
	}
	return func(r schema.GroupResource) bool { return slices.Contains(without, r) }, nil
}

// tellMissing tells which recorded resources the control plane does not serve, and which may be incomplete.
func (f *replayFlags) tellMissing(ctx context.Context, errs io.Writer, plane *controlplane.ControlPlane, m *record.Moment,
	without func(schema.GroupResource) bool) error {
	client, err := discovery.NewDiscoveryClientForConfig(plane.Config())
	if err != nil {
		return err
	}
	_, lists, err := client.ServerGroupsAndResourcesWithContext(ctx)
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) { // extension API servers do not answer
		return err
	}
	served := map[schema.GroupResource]bool{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return err
		}
		for _, r := range list.APIResources {
			served[schema.GroupResource{Group: gv.Group, Resource: r.Name}] = true
		}
	}
	objects := map[schema.GroupResource]int{}
	for key := range m.Objects {
		objects[key.GroupResource()]++
	}
	var lines []string
	for r := range m.Resources {
		if n := objects[r]; n > 0 && !served[r] && !without(r) {
			lines = append(lines, fmt.Sprintf("%s is not served: no definition of it was recorded (%d objects)", r, n))
		}
		if reason := m.Incomplete[r]; reason != "" {
			lines = append(lines, fmt.Sprintf("%s is incomplete: %s", r, reason))
		}
	}
	slices.Sort(lines)
	for _, line := range lines {
		fmt.Fprintln(errs, "flyball:", line)
	}
	return nil
}
