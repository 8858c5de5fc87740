package envtest

import (
	"errors"
	"fmt"
	"os"

	plane "flyball.dev/controlplane"
	"flyball.dev/record"
	"flyball.dev/record/restore"
	"flyball.dev/storage/memory"
)

// setSnapshot sets the options of a control plane that starts with a recording or with a snapshot.
func setSnapshot(o *plane.Options, name string) error {
	if name == "" {
		return nil
	}
	file, at := record.SplitMoment(name)
	if _, err := os.Stat(name); err == nil {
		file, at = name, "" // the name has an @
	}
	moment, f, err := record.ReadMoment(file, at)
	switch {
	case errors.Is(err, record.ErrForeign) && at == "":
		o.Snapshot = file
		return nil
	case err != nil:
		return fmt.Errorf("unable to read Snapshot: %w", err)
	}
	defer f.Close()
	if o.Storage, err = restore.Storage(moment, nil, memory.Options{}); err != nil {
		return fmt.Errorf("unable to read Snapshot: %s: %w", file, err)
	}
	return nil
}
