package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"flyball.dev/apiserver/store"
	"flyball.dev/cmd/flyball/internal/progress"
	"flyball.dev/controlplane"
	"flyball.dev/internal/kubeconfig"
	"flyball.dev/internal/privatefile"
	"flyball.dev/storage"
	"flyball.dev/storage/datadir"
	"flyball.dev/storage/snapshot"
)

// snapshots returns the command "flyball snapshot".
func snapshots() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Save a whole control plane to a file, and restore it",
		Args:  noSuchCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(snapshotSave(), snapshotRestore(), snapshotShow())
	return cmd
}

// snapshotSave returns the command "flyball snapshot save".
func snapshotSave() *cobra.Command {
	var admin string
	cmd := &cobra.Command{
		Use:   "save FILE",
		Short: "Save a running control plane to a file",
		Long: `Save a running control plane to a file: all objects at one moment, with their resource
versions, and its certificate authorities and keys. The control plane serves reads and
writes meanwhile.

The file has private keys and Secrets. It has mode 0600, and is written as a whole or
not at all. A device or a pipe, such as /dev/stdout, is written to directly.`,
		Example: `  flyball snapshot save backup.snapshot
  flyball up --snapshot backup.snapshot
  flyball snapshot save /dev/stdout | gzip > backup.snapshot.gz`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			return saveSnapshot(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), admin, args[0])
		},
	}
	addAdministrator(cmd.Flags(), &admin)
	return cmd
}

// snapshotRestore returns the command "flyball snapshot restore".
func snapshotRestore() *cobra.Command {
	var dir string
	var replace bool
	cmd := &cobra.Command{
		Use:   "restore FILE --data-dir DIRECTORY",
		Short: "Make a data directory from a file",
		Long: `Make a data directory from a file of flyball snapshot save, for flyball up --data-dir.

The directory must not be in use, and must be new or empty. With --replace it may be the
data directory of a control plane that does not run, which loses its objects.

Resource versions go on a million later than in the file, so that no client takes a new
object for one that it has seen, and watches from earlier versions get 410 Gone.
Kubeconfigs and tokens of the saved control plane are good.`,
		Example: `  flyball snapshot restore backup.snapshot --data-dir .flyball/data
  flyball up --data-dir .flyball/data`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			return restoreSnapshot(cmd.OutOrStdout(), args[0], dir, replace)
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", "", "the directory to make")
	cmd.Flags().BoolVar(&replace, "replace", false, "replace the objects that the directory has")
	_ = cmd.MarkFlagRequired("data-dir") // the flag exists
	refuseEmpty(cmd.Flags(), "data-dir")
	return cmd
}

// snapshotShow returns the command "flyball snapshot show".
func snapshotShow() *cobra.Command {
	return showCommand("Check a file, and print the resources in it", `  flyball snapshot show backup.snapshot
  flyball snapshot show backup.snapshot -o json`, summarizeSnapshot)
}

// saveSnapshot saves the control plane of a kubeconfig to a file.
func saveSnapshot(ctx context.Context, out, errs io.Writer, admin, file string) error {
	content, cfg, err := administrator(admin, errs)
	if err != nil {
		return err
	}
	var header snapshot.Header
	var size atomic.Int64
	defer progress.Start(errs, func() string { return fmt.Sprintf("saving to %s: %d MB", file, size.Load()>>20) })()
	if !privatefile.Replaceable(file) {
		out = errs // the file may be standard output
	}
	err = privatefile.Write(file, func(w io.Writer) error {
		header, err = controlplane.SaveSnapshot(ctx, cfg, io.MultiWriter(w, (*counter)(&size)))
		return err
	})
	if utilnet.IsConnectionRefused(err) {
		return kubeconfig.Unreachable(*content, "", cfg, err)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "saved revision %d to %s: %d bytes\n", header.Revision, file, size.Load())
	return nil
}

// restoreSnapshot makes a data directory from a file.
func restoreSnapshot(out io.Writer, file, dir string, replace bool) error {
	report, err := datadir.Restore(dir, file, replace)
	if errors.Is(err, datadir.ErrNotEmpty) {
		return fmt.Errorf("%w: --replace replaces its objects", err)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "restored %d records to %s, at revision %d; try: flyball up --data-dir %s\n", report.Records, dir, report.Revision, dir)
	return nil
}

// snapshotSummary says what a snapshot has.
type snapshotSummary struct {
	Format    int             `json:"format"`
	Revision  uint64          `json:"revision"`
	Taken     time.Time       `json:"taken,omitzero"`
	Size      int64           `json:"size"` // of the file
	Resources []*resourceSize `json:"resources"`
}

// resourceSize says how many objects of a resource a snapshot has.
type resourceSize struct {
	Resource string `json:"resource"`
	Objects  int    `json:"objects"`
	Bytes    int    `json:"bytes"`
}

// ownRecords stands for the records of the control plane beside the objects: its authorities, keys and address.
const ownRecords = "(the control plane)"

// summarizeSnapshot reads a whole snapshot.
func summarizeSnapshot(file string) (summary, error) {
	f, err := snapshot.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var size atomic.Int64
	sizes := map[string]*resourceSize{}
	header, err := snapshot.Read(io.TeeReader(f, (*counter)(&size)), func(r storage.Record, value []byte) {
		name := ownRecords
		if resource, ok := store.ResourceOf(r.Key); ok {
			name = resource.String()
		}
		if sizes[name] == nil {
			sizes[name] = &resourceSize{Resource: name}
		}
		sizes[name].Objects++
		sizes[name].Bytes += len(value)
	})
	if err != nil {
		return nil, snapshot.Describe(file, err)
	}
	s := &snapshotSummary{Format: snapshot.Format, Revision: header.Revision, Taken: header.Taken, Size: size.Load()}
	for _, size := range sizes {
		s.Resources = append(s.Resources, size)
	}
	slices.SortFunc(s.Resources, func(a, b *resourceSize) int { return cmp.Compare(a.Resource, b.Resource) })
	return s, nil
}

// write writes a summary for people.
func (s *snapshotSummary) write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintf(w, "format %d, revision %d, %d bytes", s.Format, s.Revision, s.Size)
	if !s.Taken.IsZero() {
		fmt.Fprintf(w, ", taken %s", s.Taken.Format(time.RFC3339))
	}
	fmt.Fprint(w, "\n\nRESOURCE\tOBJECTS\tBYTES\n")
	for _, r := range s.Resources {
		fmt.Fprintf(w, "%s\t%d\t%d\n", r.Resource, r.Objects, r.Bytes)
	}
	return w.Flush()
}
