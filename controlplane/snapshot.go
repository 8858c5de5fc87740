package controlplane

import (
	"context"
	"errors"
	"io"

	"k8s.io/client-go/rest"

	"flyball.dev/apiserver"
	"flyball.dev/internal/clientscheme"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
	"flyball.dev/storage/snapshot"
)

// SaveSnapshot writes a snapshot of a running control plane to w: all objects at one revision, with their resource
// versions, and the authorities and keys of the control plane. Writers do not wait for it. The configuration is for
// a member of system:masters, such as [ControlPlane.Config]. SaveSnapshot checks what it writes; if it returns an error,
// w has no snapshot. An error of w is returned as it is.
func SaveSnapshot(ctx context.Context, config *rest.Config, w io.Writer) (snapshot.Header, error) {
	config = rest.CopyConfig(config)
	config.Timeout = 0 // a snapshot may be large
	config.NegotiatedSerializer = clientscheme.Codecs().WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return snapshot.Header{}, err
	}
	body, err := client.Get().AbsPath(apiserver.SnapshotPath).Stream(ctx)
	if err != nil {
		return snapshot.Header{}, err
	}
	defer body.Close()
	to := destination{w: w}
	h, err := snapshot.Read(io.TeeReader(body, &to), func(storage.Record, []byte) {})
	if to.err != nil {
		return snapshot.Header{}, to.err
	}
	return h, snapshot.Describe("the response", err)
}

// destination keeps the error of a writer.
type destination struct {
	w   io.Writer
	err error
}

func (d *destination) Write(p []byte) (int, error) {
	n, err := d.w.Write(p)
	d.err = err
	return n, err
}

// loadSnapshot returns a store in memory with the records of a snapshot.
func loadSnapshot(file string, o memory.Options) (storage.Store, error) {
	f, err := snapshot.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	loader := memory.NewLoader(o)
	h, err := snapshot.Read(f, loader.Record)
	if err != nil {
		return nil, errors.Join(snapshot.Describe(file, err), loader.Close())
	}
	loader.At(snapshot.Next(h.Revision))
	return loader.Store(), nil
}
