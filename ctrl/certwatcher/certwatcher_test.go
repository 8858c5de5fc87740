package certwatcher

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	certutil "k8s.io/client-go/util/cert"

	"flyball.dev/ctrl/certwatcher/metrics"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pairs makes a certificate and a key for each name.
var pairs = sync.OnceValue(func() map[string][2][]byte {
	all := map[string][2][]byte{}
	for _, name := range []string{"first.test", "second.test", "third.test"} {
		cert, key, err := certutil.GenerateSelfSignedCertKey(name, nil, nil)
		if err != nil {
			panic(err)
		}
		all[name] = [2][]byte{cert, key}
	}
	return all
})

func write(t *testing.T, directory, name string) {
	t.Helper()
	for i, file := range []string{"tls.crt", "tls.key"} {
		if err := os.WriteFile(filepath.Join(directory, file), pairs()[name][i], 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// changes registers a callback and returns the names of the certificates it was called with.
func changes(cw *CertWatcher) <-chan string {
	names := make(chan string, 100)
	cw.RegisterCallback(func(cert tls.Certificate) {
		leaf, err := x509.ParseCertificate(cert.Certificate[0])
		if err != nil {
			names <- err.Error()
			return
		}
		names <- strings.Split(leaf.Subject.CommonName, "@")[0]
	})
	return names
}

func want(t *testing.T, names <-chan string, name string) {
	t.Helper()
	if got := <-names; got != name {
		t.Fatalf("the certificate is for %s, want %s", got, name)
	}
}

// Programs may opt out of what newer versions of Go do.
func TestKeyPairsWithoutLeaf(t *testing.T) {
	t.Setenv("GODEBUG", "x509keypairleaf=0")
	directory := t.TempDir()
	write(t, directory, "first.test")
	_, names := start(t, directory, time.Millisecond)
	write(t, directory, "second.test")
	want(t, names, "second.test")
}

// start makes a watcher of the files in directory and runs it until the test ends.
func start(t *testing.T, directory string, interval time.Duration) (*CertWatcher, <-chan string) {
	t.Helper()
	cw, err := New(filepath.Join(directory, "tls.crt"), filepath.Join(directory, "tls.key"))
	must(t, err)
	names := changes(cw)
	want(t, names, "first.test")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- cw.WithWatchInterval(interval).Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return cw, names
}

// TestReload changes the files in all the ways that programs do. The interval never elapses, so
// that only the watch can notice.
func TestReload(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, directory string){
		"written in place": func(t *testing.T, directory string) { write(t, directory, "second.test") },
		"renamed over": func(t *testing.T, directory string) {
			temporary := t.TempDir()
			write(t, temporary, "second.test")
			must(t, os.Rename(filepath.Join(temporary, "tls.crt"), filepath.Join(directory, "tls.crt")),
				os.Rename(filepath.Join(temporary, "tls.key"), filepath.Join(directory, "tls.key")))
		},
		"moved away and made again": func(t *testing.T, directory string) {
			for _, file := range []string{"tls.crt", "tls.key"} {
				must(t, os.Rename(filepath.Join(directory, file), filepath.Join(directory, file+".old")))
			}
			write(t, directory, "second.test")
		},
		"removed and made again": func(t *testing.T, directory string) {
			must(t, os.Remove(filepath.Join(directory, "tls.key")), os.Remove(filepath.Join(directory, "tls.crt")))
			write(t, directory, "second.test")
		},
	} {
		t.Run(name, func(t *testing.T) {
			directory := t.TempDir()
			write(t, directory, "first.test")
			_, names := start(t, directory, time.Hour)
			change(t, directory)
			want(t, names, "second.test")
			write(t, directory, "third.test") // the watch is still there
			want(t, names, "third.test")
		})
	}
}

// mount writes a version of a secret as the kubelet does: a new directory, and one rename of a
// symbolic link to it.
func mount(t *testing.T, directory, version, name string) {
	t.Helper()
	must(t, os.Mkdir(filepath.Join(directory, version), 0o755))
	write(t, filepath.Join(directory, version), name)
	must(t, os.Symlink(version, filepath.Join(directory, "..data_tmp")))
	previous, _ := os.Readlink(filepath.Join(directory, "..data"))
	must(t, os.Rename(filepath.Join(directory, "..data_tmp"), filepath.Join(directory, "..data")))
	if previous != "" {
		must(t, os.RemoveAll(filepath.Join(directory, previous)))
	}
}

func TestMountedSecret(t *testing.T) {
	directory := t.TempDir()
	mount(t, directory, "..2026_1", "first.test")
	for _, file := range []string{"tls.crt", "tls.key"} {
		must(t, os.Symlink(filepath.Join("..data", file), filepath.Join(directory, file)))
	}
	_, names := start(t, directory, time.Hour)
	mount(t, directory, "..2026_2", "second.test")
	want(t, names, "second.test")
	mount(t, directory, "..2026_3", "third.test")
	want(t, names, "third.test")
}

// TestLinkTarget changes the files in the directory that symbolic links point to.
func TestLinkTarget(t *testing.T) {
	directory, target := t.TempDir(), t.TempDir()
	write(t, target, "first.test")
	for _, file := range []string{"tls.crt", "tls.key"} {
		must(t, os.Symlink(filepath.Join(target, file), filepath.Join(directory, file)))
	}
	_, names := start(t, directory, time.Hour)
	write(t, target, "second.test")
	want(t, names, "second.test")
}

// TestInterval replaces the whole directory by a rename of its parent. No watched directory gets an
// event for that.
func TestInterval(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "parent")
	directory := filepath.Join(parent, "certs")
	must(t, os.MkdirAll(directory, 0o755))
	write(t, directory, "first.test")
	_, names := start(t, directory, 10*time.Millisecond)
	must(t, os.Rename(parent, parent+".old"), os.MkdirAll(directory, 0o755))
	write(t, directory, "second.test")
	want(t, names, "second.test")
}

func TestErrorsKeepTheCertificate(t *testing.T) {
	directory := t.TempDir()
	write(t, directory, "first.test")
	cert, key := filepath.Join(directory, "tls.crt"), filepath.Join(directory, "tls.key")
	cw, err := New(cert, key)
	must(t, err)
	names := changes(cw)
	want(t, names, "first.test")
	for what, change := range map[string]func() error{
		"a certificate of another key": func() error { return os.WriteFile(cert, pairs()["second.test"][0], 0o600) },
		"an empty certificate":         func() error { return os.WriteFile(cert, nil, 0o600) },
		"no key":                       func() error { return os.Remove(key) },
	} {
		write(t, directory, "first.test")
		must(t, change())
		total := testutil.ToFloat64(metrics.ReadCertificateTotal)
		failed := testutil.ToFloat64(metrics.ReadCertificateErrors)
		if err := cw.ReadCertificate(); err == nil || !strings.Contains(err.Error(), directory) {
			t.Errorf("%s: %v", what, err)
		}
		if got := testutil.ToFloat64(metrics.ReadCertificateTotal); got != total+1 {
			t.Errorf("%s: %v reads were counted", what, got-total)
		}
		if got := testutil.ToFloat64(metrics.ReadCertificateErrors); got != failed+1 {
			t.Errorf("%s: %v errors were counted", what, got-failed)
		}
		if got, err := cw.GetCertificate(nil); err != nil || got == nil {
			t.Errorf("%s: the certificate is %v, %v", what, got, err)
		}
		if _, err := New(cert, key); err == nil {
			t.Errorf("%s: New returned no error", what)
		}
	}
	write(t, directory, "third.test")
	must(t, cw.ReadCertificate(), cw.ReadCertificate())
	want(t, names, "third.test")
	select {
	case name := <-names:
		t.Errorf("a read without a change called the callback with %s", name)
	default:
	}
}

// TestChain replaces only the intermediate certificate that follows the leaf.
func TestChain(t *testing.T) {
	directory := t.TempDir()
	write(t, directory, "first.test")
	cw, err := New(filepath.Join(directory, "tls.crt"), filepath.Join(directory, "tls.key"))
	must(t, err)
	chain := append([]byte{}, pairs()["first.test"][0]...)
	chain = append(chain, pairs()["second.test"][0]...)
	must(t, os.WriteFile(filepath.Join(directory, "tls.crt"), chain, 0o600), cw.ReadCertificate())
	before, _ := cw.GetCertificate(nil)
	last := before.Certificate[len(before.Certificate)-1]
	leaf, err := x509.ParseCertificate(last)
	must(t, err)
	if !strings.HasPrefix(leaf.Subject.CommonName, "second.test") {
		t.Errorf("the chain ends with %s", leaf.Subject.CommonName)
	}
}

// TestSlowCallback holds a callback while the certificate changes twice: the change in between is
// coalesced, and nothing but the callback waits.
func TestSlowCallback(t *testing.T) {
	directory := t.TempDir()
	write(t, directory, "first.test")
	cw, err := New(filepath.Join(directory, "tls.crt"), filepath.Join(directory, "tls.key"))
	must(t, err)
	called, release := make(chan *x509.Certificate), make(chan struct{})
	first := true
	cw.RegisterCallback(func(cert tls.Certificate) {
		if first {
			first = false
			return
		}
		called <- cert.Leaf
		<-release
	})
	write(t, directory, "second.test")
	must(t, cw.ReadCertificate())
	if leaf := <-called; !strings.HasPrefix(leaf.Subject.CommonName, "second.test") {
		t.Errorf("called with %s", leaf.Subject.CommonName)
	}
	write(t, directory, "first.test")
	must(t, cw.ReadCertificate())
	write(t, directory, "third.test")
	must(t, cw.ReadCertificate())
	release <- struct{}{}
	if leaf := <-called; !strings.HasPrefix(leaf.Subject.CommonName, "third.test") {
		t.Errorf("then called with %s", leaf.Subject.CommonName)
	}
	release <- struct{}{}
}

func TestInvalidInterval(t *testing.T) {
	directory := t.TempDir()
	write(t, directory, "first.test")
	cw, err := New(filepath.Join(directory, "tls.crt"), filepath.Join(directory, "tls.key"))
	must(t, err)
	err = cw.WithWatchInterval(0).Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "must be positive") {
		t.Errorf("Start with an interval of 0: %v", err)
	}
	cw.Watch() // returns, as nothing is watched
	if cw.NeedLeaderElection() {
		t.Error("it needs leader election")
	}
}

// TestValidity checks that a certificate that is not valid yet is logged, and its expiry before and
// after it, each once.
func TestValidity(t *testing.T) {
	directory := t.TempDir()
	write(t, directory, "first.test")
	cw, err := New(filepath.Join(directory, "tls.crt"), filepath.Join(directory, "tls.key"))
	must(t, err)
	var logged []string
	cw.log = funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})
	var last validityLog
	for _, step := range []struct {
		left time.Duration // of 10 hours
		want string
	}{
		{12 * time.Hour, "not valid yet"},
		{11 * time.Hour, ""},
		{2 * time.Hour, ""},
		{59 * time.Minute, "will expire soon"},
		{time.Minute, ""},
		{-time.Minute, "has expired"},
		{-time.Hour, ""},
	} {
		logged = nil
		end := time.Now().Add(step.left)
		cw.current.Leaf.NotAfter, cw.current.Leaf.NotBefore = end, end.Add(-10*time.Hour)
		last = cw.logValidity(last)
		if step.want == "" && len(logged) > 0 ||
			step.want != "" && (len(logged) != 1 || !strings.Contains(logged[0], step.want)) {
			t.Errorf("with %v left: logged %q", step.left, logged)
		}
	}
	// A new certificate is logged again.
	write(t, directory, "second.test")
	must(t, cw.ReadCertificate())
	logged, cw.current.Leaf.NotAfter = nil, time.Now().Add(-time.Minute)
	if cw.logValidity(last); len(logged) != 1 {
		t.Errorf("another one that has expired: %q", logged)
	}
}
