package strategytest

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"flyball.dev/apiserver/builtin"
)

// Unrecorded is the name of the only kind without recorded writes. Its seeds are made anew for each run, because kube-apiserver accepts a
// certificate only within five minutes of its first second.
const Unrecorded = "podcertificaterequests.certificates.k8s.io"

// Recorded is a write with its outcome, as a line of a recording.
type Recorded struct {
	Kind        string          `json:"kind"`
	Subresource string          `json:"subresource,omitempty"`
	Object      json.RawMessage `json:"object"`
	Old         json.RawMessage `json:"old,omitempty"`
	// Defaulted and Result are missing if the write is invalid. Result is missing, too, if it is Defaulted.
	Defaulted json.RawMessage `json:"defaulted,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Errors    []string        `json:"errors,omitempty"`
	Warnings  []string        `json:"warnings,omitempty"`
	Failed    string          `json:"failed,omitempty"`
}

// Record returns a write to be recorded, without an outcome.
func Record(k *Kind, w Write) (*Recorded, error) {
	object, err := json.Marshal(w.Object)
	if err != nil {
		return nil, err
	}
	r := &Recorded{Kind: k.Name, Subresource: w.Subresource, Object: object}
	if w.Old != nil {
		r.Old, err = json.Marshal(w.Old)
	}
	return r, err
}

// SetOutcome records what became of the write: the objects and the warnings if it is valid, and the errors otherwise.
func (r *Recorded) SetOutcome(o *Outcome) {
	r.Errors, r.Warnings, r.Failed = o.Errors, nil, o.Failed
	r.Defaulted, r.Result = nil, nil
	if o.Valid() {
		r.Warnings, r.Defaulted = o.Warnings, json.RawMessage(o.Defaulted)
		if o.Result != o.Defaulted {
			r.Result = json.RawMessage(o.Result)
		}
	}
}

// Outcome returns what became of the write, as SetOutcome recorded it.
func (r *Recorded) Outcome() *Outcome {
	o := &Outcome{Defaulted: string(r.Defaulted), Result: string(r.Result), Errors: r.Errors, Warnings: r.Warnings, Failed: r.Failed}
	if o.Result == "" {
		o.Result = o.Defaulted
	}
	return o
}

// Write decodes the write.
func (r *Recorded) Write(k *Kind) (w Write, err error) {
	w.Subresource = r.Subresource
	if w.Object, err = read(k.GVK, r.Object); err == nil && r.Old != nil {
		w.Old, err = read(k.GVK, r.Old)
	}
	return w, err
}

func read(gvk schema.GroupVersionKind, text []byte) (runtime.Object, error) {
	obj, err := builtin.Scheme().New(gvk)
	if err != nil {
		return nil, err
	}
	return obj, json.Unmarshal(text, obj)
}

// ReadRecording reads a file of recorded writes: compressed lines of JSON.
func ReadRecording(file string) (all []*Recorded, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	unzip, err := gzip.NewReader(bufio.NewReader(f))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for d := json.NewDecoder(unzip); ; {
		r := &Recorded{}
		switch err := d.Decode(r); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, r)
	}
}

// WriteRecording writes a file that ReadRecording reads.
func WriteRecording(file string, all []*Recorded) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	zip, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	e := json.NewEncoder(zip)
	e.SetEscapeHTML(false)
	for _, r := range all {
		if err := e.Encode(r); err != nil {
			return err
		}
	}
	return errors.Join(zip.Close(), f.Close())
}
