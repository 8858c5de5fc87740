package encryption_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controlplanetest"
	"flyball.dev/controlplane/encryption"
	"flyball.dev/storage"
	"flyball.dev/storage/memory"
)

// TestForkWhileWriting forks a control plane with encryption while clients write Secrets, and writes to the forks. All can be
// read, and no stored value of any of the control planes is in plain text.
func TestForkWhileWriting(t *testing.T) {
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	configure(t, file, provider("aesgcm", "a"))
	e, err := encryption.Load(file, false)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s := memory.New(memory.Options{})
	plane, err := controlplane.Start(context.Background(), controlplane.Options{Storage: s, WithoutControllers: true, Transformers: e.Transformers, ReadyChecks: e.ReadyChecks})
	if err != nil {
		t.Fatal(err)
	}
	defer plane.Stop()
	write := func(c kubernetes.Interface, name string) error {
		secrets := c.CoreV1().Secrets("default")
		created, err := secrets.Create(t.Context(), secret(name), metav1.CreateOptions{})
		if err != nil {
			return err
		}
		created.Labels = map[string]string{"changed": "yes"}
		_, err = secrets.Update(t.Context(), created, metav1.UpdateOptions{})
		return err
	}
	stop := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		c := controlplanetest.ClientFor(t, plane.Config())
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := write(c, fmt.Sprint("s-", i)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 10 {
		f, err := plane.Fork(t.Context(), controlplane.ForkOptions{})
		if err != nil {
			t.Fatal(err)
		}
		c := controlplanetest.ClientFor(t, f.Config())
		if err := write(c, "of-the-fork"); err != nil {
			t.Error(err)
		}
		list, err := c.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list.Items {
			if err := check(t.Context(), c, s.Name); err != nil {
				t.Errorf("%s: %v", s.Name, err)
			}
		}
		var snapshot bytes.Buffer
		if _, err := controlplane.SaveSnapshot(t.Context(), f.Config(), &snapshot); err != nil || bytes.Contains(snapshot.Bytes(), []byte(secretText)) {
			t.Errorf("the snapshot of the fork has the text of a Secret, or error %v", err)
		}
		if err := f.Stop(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	writing.Wait()
	page, err := s.Range(t.Context(), storage.Query{Path: "/registry/secrets/"})
	if err != nil || len(page.Records) == 0 {
		t.Fatal(len(page.Records), err)
	}
	for _, r := range page.Records {
		if !bytes.HasPrefix(r.Value(), []byte("k8s:enc:aesgcm:v1:a:")) {
			t.Errorf("%s is stored as %q", r.Key, r.Value())
		}
	}
}
