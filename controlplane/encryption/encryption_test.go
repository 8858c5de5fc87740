package encryption_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"

	"flyball.dev/apiserver/endpoints/endpointstest"
	"flyball.dev/controlplane"
	"flyball.dev/controlplane/controlplanetest"
	"flyball.dev/controlplane/encryption"
	"flyball.dev/storage/datadir"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// secretText is in the data of Secrets, and must not be in any file.
const secretText = "the-eagle-has-landed"

// provider returns the configuration of a provider with keys. The first key encrypts.
func provider(name string, keys ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  - %s:\n      keys:\n", name)
	for _, k := range keys {
		key := base64.StdEncoding.EncodeToString([]byte(strings.Repeat(k, 32)[:32]))
		fmt.Fprintf(&b, "      - {name: %s, secret: %s}\n", k, key)
	}
	return b.String()
}

// configure writes a configuration file for Secrets.
func configure(t testing.TB, file string, providers ...string) {
	t.Helper()
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers:\n" +
		strings.Join(providers, "")
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// with starts a control plane with a data directory, calls f and stops the control plane. Without a file, nothing is
// encrypted.
func with(t testing.TB, dir, file string, reload bool, f func(kubernetes.Interface)) {
	t.Helper()
	withOptions(t, controlplane.Options{DataDir: dir, WithoutControllers: true}, file, reload, f)
}

// withOptions is with for any control plane.
func withOptions(t testing.TB, options controlplane.Options, file string, reload bool, f func(kubernetes.Interface)) {
	t.Helper()
	if file != "" {
		e, err := encryption.Load(file, reload)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		options.Transformers, options.ReadyChecks = e.Transformers, e.ReadyChecks
	}
	plane, err := controlplane.Start(context.Background(), options)
	if err != nil {
		t.Fatal(err)
	}
	defer plane.Stop()
	f(controlplanetest.ClientFor(t, plane.Config()))
}

func secret(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, StringData: map[string]string{"text": secretText}}
}

// check returns an error unless a Secret can be read.
func check(ctx context.Context, c kubernetes.Interface, name string) error {
	s, err := c.CoreV1().Secrets("default").Get(ctx, name, metav1.GetOptions{})
	if err == nil && string(s.Data["text"]) != secretText {
		err = fmt.Errorf("the Secret has %q", s.Data)
	}
	return err
}

// stored returns the stored value of a Secret.
func stored(t testing.TB, dir, name string) []byte {
	t.Helper()
	s, err := datadir.Open(dir, datadir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r, err := s.Get(t.Context(), "/registry/secrets/default/"+name)
	if err != nil {
		t.Fatal(err)
	}
	return r.Value()
}

// contains reports whether a file below a directory contains a text.
func contains(t testing.TB, dir, text string) (found bool) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		found = found || bytes.Contains(data, []byte(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestProviders encrypts Secrets with each provider that has its keys in the file. The values have kube-apiserver's
// prefixes, and cannot be read without the key.
func TestProviders(t *testing.T) {
	for name, prefix := range map[string]string{
		"aesgcm": "k8s:enc:aesgcm:v1:a:", "aescbc": "k8s:enc:aescbc:v1:a:", "secretbox": "k8s:enc:secretbox:v1:a:",
	} {
		t.Run(name, func(t *testing.T) {
			dir, file := t.TempDir(), filepath.Join(t.TempDir(), "encryption.yaml")
			configure(t, file, provider(name, "a"))
			with(t, dir, file, false, func(c kubernetes.Interface) {
				if _, err := c.CoreV1().Secrets("default").Create(t.Context(), secret("s"), metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				if _, err := c.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Name: "m"}, Data: map[string]string{"text": "plain-text"}}, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			})
			if value := stored(t, dir, "s"); !bytes.HasPrefix(value, []byte(prefix)) {
				t.Errorf("the value begins with %q, want %q", value[:min(len(value), 30)], prefix)
			}
			if contains(t, dir, secretText) {
				t.Error("the text of the Secret is in a file")
			}
			if !contains(t, dir, "plain-text") {
				t.Error("the text of the ConfigMap is in no file")
			}
			with(t, dir, file, false, func(c kubernetes.Interface) {
				if err := check(t.Context(), c, "s"); err != nil {
					t.Errorf("after a restart: %v", err)
				}
			})
			with(t, dir, "", false, func(c kubernetes.Interface) {
				if err := check(t.Context(), c, "s"); err == nil {
					t.Error("the Secret can be read without a key")
				}
			})
			configure(t, file, provider(name, "b"))
			with(t, dir, file, false, func(c kubernetes.Interface) {
				if err := check(t.Context(), c, "s"); err == nil || !strings.Contains(err.Error(), "Internal error occurred") && !strings.Contains(err.Error(), "no matching") {
					t.Errorf("with another key: %v", err)
				}
				if _, err := c.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); err == nil {
					t.Error("the Secrets can be listed with another key")
				}
			})
		})
	}
}

// TestRotation replaces a key while the control plane runs: an update rewrites a value of an old key, even if nothing else
// changes, and then the old key is no longer needed.
// TestPaths: lists and watches of encrypted objects, and of others beside them, take the fast path.
func TestPaths(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "encryption.yaml")
	configure(t, file, provider("aesgcm", "a"))
	withOptions(t, controlplane.Options{WithoutControllers: true}, file, false, func(c kubernetes.Interface) {
		for _, resource := range []string{"secrets", "configmaps"} {
			paths := endpointstest.Count(t, resource, "list", "watch")
			for _, query := range []string{"", "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1",
				"watch=true&timeoutSeconds=1"} {
				if err := c.CoreV1().RESTClient().Get().AbsPath("/api/v1/" + resource).RequestURI("/api/v1/" + resource + "?" + query).Do(t.Context()).Error(); err != nil {
					t.Error(err)
				}
			}
			paths().Require(t, endpointstest.Fast, 3)
		}
	})
}

func TestRotation(t *testing.T) { synctest.Test(t, testRotation) }

func testRotation(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "encryption.yaml")
	with(t, dir, "", false, func(c kubernetes.Interface) {
		if _, err := c.CoreV1().Secrets("default").Create(t.Context(), secret("plain"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	})
	reload := func() { // the file is read every minute
		time.Sleep(2 * time.Minute)
		synctest.Wait()
	}
	reconfigure := func(providers ...string) {
		t.Helper()
		configure(t, file, providers...)
		reload()
	}
	reconfigure(provider("aesgcm", "a"), "  - identity: {}\n")
	with(t, dir, file, true, func(c kubernetes.Interface) {
		if _, err := c.CoreV1().Secrets("default").Create(t.Context(), secret("s"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		changes := func(want bool) {
			t.Helper()
			before := version(t, c, "s")
			if changed := rewrite(t, c, "s") != before; changed != want {
				t.Errorf("an update without a change is written: %v, want %v", changed, want)
			}
		}
		changes(false)
		reconfigure(provider("secretbox", "b"), provider("aesgcm", "a"), "  - identity: {}\n")
		changes(true)
		changes(false)
		rewrite(t, c, "plain")
		reconfigure("  - nonsense: {}\n") // is refused, and the last good one remains
		changes(false)
		logged := handledErrors(t)
		if err := os.WriteFile(file, []byte("providers: # without a kind\n"+provider("secretbox", "d")), 0o600); err != nil {
			t.Fatal(err)
		}
		reload()
		changes(false)
		if s := logged(); !strings.Contains(s, file) || strings.Contains(s, "ZGRkZGRk") {
			t.Errorf("want the file in the log, and no key: %s", s)
		}
		reconfigure(provider("secretbox", "c", "b"))
		changes(true)
		rewrite(t, c, "plain")
	})
	configure(t, file, provider("secretbox", "c"))
	with(t, dir, file, false, func(c kubernetes.Interface) {
		for _, name := range []string{"s", "plain"} {
			if err := check(t.Context(), c, name); err != nil {
				t.Errorf("%s, with the new key alone: %v", name, err)
			}
		}
	})
	for _, name := range []string{"s", "plain"} {
		if value := stored(t, dir, name); !bytes.HasPrefix(value, []byte("k8s:enc:secretbox:v1:c:")) {
			t.Errorf("%s begins with %q", name, value[:min(len(value), 30)])
		}
	}
}

// handledErrors collects, until the end of a test, the errors that are logged. The function returns them.
func handledErrors(t *testing.T) func() string {
	var mu sync.Mutex
	var all strings.Builder
	handlers := utilruntime.ErrorHandlers
	t.Cleanup(func() { utilruntime.ErrorHandlers = handlers })
	utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{func(_ context.Context, err error, message string, keysAndValues ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(&all, err, message, keysAndValues)
	}}
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return all.String()
	}
}

// TestMigration replaces a key by a StorageVersionMigration.
func TestMigration(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "encryption.yaml")
	names := []string{"x", "y", "z"}
	configure(t, file, provider("aesgcm", "a"))
	with(t, dir, file, false, func(c kubernetes.Interface) {
		for _, name := range names {
			if _, err := c.CoreV1().Secrets("default").Create(t.Context(), secret(name), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	})
	configure(t, file, provider("aesgcm", "b", "a"))
	withOptions(t, controlplane.Options{DataDir: dir}, file, false, func(c kubernetes.Interface) {
		migrations := c.StoragemigrationV1().StorageVersionMigrations()
		w, err := migrations.Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		m := &storagemigrationv1.StorageVersionMigration{ObjectMeta: metav1.ObjectMeta{Name: "m"}}
		m.Spec.Resource.Resource = "secrets"
		if _, err := migrations.Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		for e := range w.ResultChan() {
			conditions := e.Object.(*storagemigrationv1.StorageVersionMigration).Status.Conditions
			if meta.IsStatusConditionTrue(conditions, string(storagemigrationv1.MigrationFailed)) {
				t.Fatalf("the migration has failed: %+v", conditions)
			}
			if meta.IsStatusConditionTrue(conditions, string(storagemigrationv1.MigrationSucceeded)) {
				break
			}
		}
	})
	configure(t, file, provider("aesgcm", "b"))
	with(t, dir, file, false, func(c kubernetes.Interface) {
		for _, name := range names {
			if err := check(t.Context(), c, name); err != nil {
				t.Errorf("%s, with the new key alone: %v", name, err)
			}
		}
	})
}

// version returns the resource version of a Secret.
func version(t testing.TB, c kubernetes.Interface, name string) string {
	t.Helper()
	s, err := c.CoreV1().Secrets("default").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s.ResourceVersion
}

// rewrite updates a Secret without a change, and returns its resource version.
func rewrite(t testing.TB, c kubernetes.Interface, name string) string {
	t.Helper()
	secrets := c.CoreV1().Secrets("default")
	s, err := secrets.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s, err = secrets.Update(t.Context(), s, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	return s.ResourceVersion
}

// TestEverything encrypts all resources, custom ones and namespaces too.
func TestEverything(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "encryption.yaml")
	configure(t, file, provider("secretbox", "a"))
	data, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, bytes.Replace(data, []byte("[secrets]"), []byte(`["*.*"]`), 1), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		with(t, dir, file, false, func(c kubernetes.Interface) {
			if _, err := c.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{GenerateName: "m"}, Data: map[string]string{"text": secretText}}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		})
	}
	s, err := datadir.Open(dir, datadir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if contains(t, dir, secretText) {
		t.Error("a text is in a file")
	}
	r, err := s.Get(t.Context(), "/registry/namespaces/default")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(r.Value(), []byte("k8s:enc:secretbox:v1:a:")) {
		t.Errorf("the namespace begins with %q", r.Value()[:10])
	}
}

// TestLoadErrors loads files that are invalid.
func TestLoadErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	if _, err := encryption.Load(file, false); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("no file: %v", err)
	}
	configure(t, file, "  - aesgcm: {keys: [{name: a, secret: c2hvcnQ=}]}\n")
	for _, reload := range []bool{false, true} {
		if _, err := encryption.Load(file, reload); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("a short key: %v", err)
		}
	}
}
