// Package record reads and writes recordings: the objects of a cluster at the beginning, and every change since, each with
// the time at which the recorder saw it.
//
// [Cluster] records a cluster by list and watch. [ReadMoment] returns the objects of a moment. Package
// flyball.dev/record/restore makes a storage of them, for a control plane.
//
// A recording is a sequence of zstd frames. It can be read while it is written, and if the end is missing, up to there.
package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Header describes a recording.
type Header struct {
	Began  time.Time `json:"began"`
	Server string    `json:"server,omitempty"` // the address of the API server
	// Version is the version of Kubernetes that the server has.
	Version string `json:"version,omitempty"`
	// Redacted lists the fields that [Redactor] has replaced.
	Redacted []string `json:"redacted,omitempty"`
}

// Resource is a resource of a cluster, in the version in which its objects are recorded.
type Resource struct {
	Group      string `json:"group,omitempty"`
	Version    string `json:"version"`
	Name       string `json:"name"` // plural
	Kind       string `json:"kind"`
	Namespaced bool   `json:"namespaced,omitempty"`
}

// GroupResource returns the name of the resource with its group.
func (r Resource) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.Group, Resource: r.Name}
}

// GroupVersion returns the version in which the objects are recorded.
func (r Resource) GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: r.Group, Version: r.Version}
}

// Type is the type of an entry.
type Type byte

// The types of entries.
const (
	// Served says that a resource is recorded from now on, or again. The entry has no object.
	Served Type = iota + 1
	// Exists has an object that was there when its resource was listed for the first time.
	Exists
	// Listed says that all objects of a resource are known. Until then, objects may be missing.
	Listed
	// Added, Modified and Deleted have a change. The object of a deletion is the last one, or empty if only the name is
	// known.
	Added
	Modified
	Deleted
	// Lost says that the recorder did not see all changes of a resource until the next Listed.
	Lost
	// Removed says that the cluster does not serve a resource any more. Its objects are gone.
	Removed
	// Missing says that the recorder cannot read a resource. Text has the reason.
	Missing
	// Ended is the last entry of a recording that was not cut off.
	Ended
)

var typeNames = [...]string{Served: "served", Exists: "exists", Listed: "listed", Added: "added", Modified: "modified",
	Deleted: "deleted", Lost: "lost", Removed: "removed", Missing: "missing", Ended: "ended"}

// String returns the name of the type.
func (t Type) String() string {
	if t < Served || t > Ended {
		return fmt.Sprintf("Type(%d)", byte(t))
	}
	return typeNames[t]
}

// Entry is an entry of a recording.
type Entry struct {
	Type Type
	// Time is when the recorder saw the change. No entry is earlier than the one before.
	Time time.Time
	// Resource is the resource of the object; nil in the last entry.
	Resource *Resource
	// Namespace and Name identify the object.
	Namespace, Name string
	// Object is the JSON of the object, with its kind. The reader of the entry owns it.
	Object json.RawMessage
	// Text is the reason of Missing.
	Text string
}

var (
	// ErrForeign means that a file is not a recording.
	ErrForeign = errors.New("not a recording")
	// ErrFormat means that a newer version has written the recording.
	ErrFormat = errors.New("a newer version of flyball has written this recording")
	// ErrCut means that the end of a recording is missing: the recorder still runs, or was killed, or the file was cut.
	ErrCut = errors.New("the recording has no end")
)

// DamageError means that a recording does not have what was written to it. The entries before are intact.
type DamageError struct {
	After int // the number of intact entries
	Err   error
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("damaged after %d entries: %v", e.After, e.Err)
}

func (e *DamageError) Unwrap() error { return e.Err }
