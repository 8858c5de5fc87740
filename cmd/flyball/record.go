package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/cmd/flyball/internal/progress"
	"flyball.dev/cmd/flyball/internal/terminal"
	"flyball.dev/record"
)

// recordFlags are the flags of flyball record.
type recordFlags struct {
	cluster     clusterFlags
	out         string
	length      time.Duration
	kinds       []string
	redact      []string
	withSecrets bool
}

// recordCommand returns the command "flyball record".
func recordCommand() *cobra.Command {
	var f recordFlags
	cmd := &cobra.Command{
		Use:   "record --out FILE|DIR",
		Short: "Record a cluster: its objects, and every change of them",
		Long: `Record a cluster to a file: its objects, and every change of them until Ctrl-C, each with the time.
flyball replay serves the cluster again as it was at any moment of the recording.

It lists and watches all kinds that it may read, and makes no other requests. What it may not
read is named, and missing in the recording. If it loses a watch for so long that the server has
forgotten the changes, the recording says so.

The data of Secrets is replaced by codes: equal data has equal codes in a recording, and no code
leads back to the data. --with-secrets records the data, --redact replaces further fields. The
file has mode 0600.

The recording can be read while it is written. It ends without damage if the program is killed, up
to a second before.`,
		Example: `  flyball record --out incident.recording
  flyball record --out recordings/ --for 1h --kinds pods,deployments.apps,orders
  flyball record --out shop.recording --redact configmaps=data --redact databases.example.com=spec.password
  flyball record show incident.recording`,
		Args: noArgs("the file is named by --out; flyball record show FILE describes a recording"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	f.cluster.add(cmd)
	flags.StringVar(&f.out, "out", "", "the file to make, or a directory for a file with the time as its name")
	flags.DurationVar(&f.length, "for", 0, "how long to record (default until Ctrl-C)")
	flags.StringSliceVar(&f.kinds, "kinds", nil, "the kinds to record, such as pods,deployments.apps (default all)")
	flags.StringSliceVar(&f.redact, "redact", nil, "RESOURCE.GROUP=FIELD: a field with values to replace; may be repeated")
	flags.BoolVar(&f.withSecrets, "with-secrets", false, "record the data of Secrets as it is")
	_ = cmd.MarkFlagRequired("out") // the flag exists
	refuseEmpty(flags, "out", "kinds", "redact", "kubeconfig", "context")
	cmd.AddCommand(recordShow())
	return cmd
}

// run records.
func (f *recordFlags) run(ctx context.Context, out, errs io.Writer) error {
	if f.length < 0 {
		return errors.New("--for must not be negative")
	}
	fields := f.redact
	if !f.withSecrets {
		fields = slices.Concat(record.SecretFields, fields)
	}
	redactor, err := record.NewRedactor(fields)
	if err != nil {
		return fmt.Errorf("--redact: %w", err)
	}
	loaded, config, err := f.cluster.load(errs)
	if err != nil {
		return err
	}
	began := time.Now()
	cluster, header, err := record.NewCluster(ctx, config, record.Options{
		Kinds: f.kinds, Redactor: redactor,
		Notice: func(text string) { fmt.Fprintln(errs, "flyball:", text) },
		Listed: func(objects int) {
			fmt.Fprintf(out, "listed %d objects in %d ms; recording their changes\n", objects, time.Since(began).Milliseconds())
		},
	})
	if err != nil {
		return f.cluster.explain(loaded, config, err)
	}
	file, path, err := createRecording(f.out)
	if err != nil {
		return err
	}
	var size atomic.Int64
	w, err := record.NewWriter(io.MultiWriter(file, (*counter)(&size)), header)
	if err == nil {
		fmt.Fprintf(out, "recording %s to %s; Ctrl-C ends it\n", config.Host, path)
		err = f.record(ctx, errs, cluster, w, path)
		err = errors.Join(err, w.Close())
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	fmt.Fprintf(out, "recorded %d objects and changes in %s to %s: %.1f MB; try: flyball replay %[3]s\n", cluster.Changes(),
		time.Since(began).Round(time.Second), path, float64(size.Load())/1e6)
	return nil
}

// record records for as long as the flags say, and shows the progress on a terminal.
func (f *recordFlags) record(ctx context.Context, errs io.Writer, cluster *record.Cluster, w *record.Writer, path string) error {
	if f.length > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.length)
		defer cancel()
	}
	if terminal.Is(errs) {
		defer progress.Start(errs, func() string {
			return fmt.Sprintf("recording to %s: %d objects and changes", path, cluster.Changes())
		})()
	}
	return cluster.Record(ctx, w)
}

// createRecording creates the file of a recording. A path of a directory leads to a file in it.
func createRecording(path string) (*os.File, string, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() || os.IsPathSeparator(path[len(path)-1]) {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return nil, "", err
		}
		path = filepath.Join(path, time.Now().Format("2006-01-02T15-04-05")+".recording")
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil, "", fmt.Errorf("%s exists: a recording does not replace a file", path)
	}
	return file, path, err
}

// recordShow returns the command "flyball record show".
func recordShow() *cobra.Command {
	return showCommand("Check a recording, and print what it has", `  flyball record show incident.recording
  flyball record show incident.recording -o json`, summarizeRecording)
}

// recordingSummary says what a recording has.
type recordingSummary struct {
	record.Header
	Until     time.Time            `json:"until"` // the time of the last entry
	Ended     bool                 `json:"ended"` // false if the recording has no end
	Resources []*recordedResources `json:"resources"`
}

// recordedResources says what a recording has of a resource.
type recordedResources struct {
	Resource string   `json:"resource"`
	Objects  int      `json:"objects"` // at the end
	Changes  int      `json:"changes"`
	Notes    []string `json:"notes,omitempty"`
}

// summarizeRecording reads a whole recording. With a damaged recording, it returns the summary of the intact part, too.
func summarizeRecording(path string) (summary, error) {
	f, err := record.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := &recordingSummary{Header: f.Header, Until: f.Header.Began}
	m := record.NewMoment(f.Header)
	resources := map[schema.GroupResource]*recordedResources{}
	of := func(r *record.Resource) *recordedResources {
		key := r.GroupResource()
		if resources[key] == nil {
			resources[key] = &recordedResources{Resource: key.String()}
			s.Resources = append(s.Resources, resources[key])
		}
		return resources[key]
	}
	var damage error
	for e, err := range f.All() {
		if err != nil {
			if !errors.Is(err, record.ErrCut) {
				damage = fmt.Errorf("%s: %w", path, err)
			}
			break
		}
		m.Apply(e)
		switch e.Type {
		case record.Added, record.Modified, record.Deleted:
			of(e.Resource).Changes++
		case record.Lost:
			of(e.Resource).note(e.Time, "changes are missing")
		case record.Missing:
			of(e.Resource).note(e.Time, e.Text)
		case record.Removed:
			of(e.Resource).note(e.Time, "not served any more")
		case record.Ended:
			s.Ended = true
		default:
			of(e.Resource)
		}
	}
	s.Until = m.Time
	for key := range m.Objects {
		resources[key.GroupResource()].Objects++
	}
	slices.SortFunc(s.Resources, func(a, b *recordedResources) int { return cmp.Compare(a.Resource, b.Resource) })
	return s, damage
}

// note notes what happened at a time.
func (r *recordedResources) note(at time.Time, what string) {
	r.Notes = append(r.Notes, at.Local().Format(time.TimeOnly)+" "+what)
}

// write writes a summary for people.
func (s *recordingSummary) write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintf(w, "%s, Kubernetes %s\n", s.Server, s.Version)
	fmt.Fprintf(w, "from %s to %s, %s", s.Began.Local().Format(time.RFC3339), s.Until.Local().Format(time.RFC3339), s.Until.Sub(s.Began).Round(time.Second))
	if !s.Ended {
		fmt.Fprint(w, "; it has no end: the recorder still runs, or was killed")
	}
	fmt.Fprint(w, "\n\nRESOURCE\tOBJECTS\tCHANGES\tNOTES\n")
	for _, r := range s.Resources {
		if r.Objects == 0 && r.Changes == 0 && r.Notes == nil {
			continue
		}
		note := ""
		if len(r.Notes) > 0 {
			note = r.Notes[0]
			if more := len(r.Notes) - 1; more > 0 {
				note += fmt.Sprintf(", and %d more", more)
			}
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\n", r.Resource, r.Objects, r.Changes, note)
	}
	return w.Flush()
}
