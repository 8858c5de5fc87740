package main

import (
	"bytes"
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"flyball.dev/apiserver/endpoints/endpointstest"
	"flyball.dev/storage"
	"flyball.dev/storage/datadir"
	"flyball.dev/storage/etcd"
)

var (
	storageFlag = flag.String("storage", "memory", "the storage of TestRecorded: memory, datadir or etcd")
	etcdFlag    = flag.String("etcd", "", "the `file` of a program that TestKubernetes runs in place of etcd, such as the stand-in of flyball assets")
)

// load returns all scripts.
func load(t *testing.T) []*script {
	t.Helper()
	scripts, err := loadScripts("testdata")
	if err != nil {
		t.Fatal(err)
	}
	return scripts
}

// TestRecorded compares both paths of this module's server with the recorded answers. The differences must equal the
// listed ones.
func TestRecorded(t *testing.T) {
	for name, withoutFastPath := range map[string]bool{"fast path": false, "fallback": true} {
		t.Run(name, func(t *testing.T) {
			paths := endpointstest.Count(t, "", endpointstest.Writes...)
			checkRecorded(t, withoutFastPath)
			if err := paths().Check(!withoutFastPath, 0.3); err != nil {
				t.Error(err)
			}
		})
	}
}

func checkRecorded(t *testing.T, withoutFastPath bool) {
	t.Helper()
	results, err := playFlyball(t.Context(), load(t), openStorage(t), withoutFastPath)
	if err != nil {
		t.Fatal(err)
	}
	list, err := loadKnown(differencesFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.exchange.recorded == nil {
			t.Errorf("%s/%s has no recorded answer: go run . record %s", r.script.name, r.exchange.name, r.script.name)
		}
		for _, d := range r.differences {
			if list.find(r.script.name, r.exchange.name, d) == nil {
				t.Errorf("%s\n\twant %s\n\tgot  %s", line(r.script.name, r.exchange.name, d), d.want, d.got)
			}
		}
	}
	for _, e := range list.entries {
		if e.matches == 0 {
			t.Errorf("no longer differs, take it from %s: %s", differencesFile, e.line)
		}
	}
}

// openStorage opens the storage that a flag names; nil is the one in memory.
func openStorage(t *testing.T) storage.Store {
	t.Helper()
	switch *storageFlag {
	case "memory":
		return nil
	case "datadir":
		s, err := datadir.Open(t.TempDir(), datadir.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	case "etcd":
		return openEtcd(t)
	}
	t.Fatalf("there is no storage %q", *storageFlag)
	return nil
}

// openEtcd opens the storage in an etcd that ends with the test.
func openEtcd(t *testing.T) storage.Store {
	t.Helper()
	b, err := cached()
	if err != nil {
		t.Fatal(err)
	}
	k := &kubernetes{dir: t.TempDir()}
	url, err := k.runEtcd(b)
	if err != nil {
		t.Fatalf("%v; go run . build", err)
	}
	t.Cleanup(func() {
		if err := k.stop(); err != nil {
			t.Error(err)
		}
	})
	for {
		s, err := etcd.Open(t.Context(), etcd.Options{Endpoints: []string{url}})
		if err == nil {
			return s
		}
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
		<-time.After(100 * time.Millisecond)
	}
}

// TestKubernetes compares kube-apiserver, if it has been built, with its recorded answers. With the flag -etcd, it stores in
// another program than etcd, and must answer the same. Scripts with different
// answers run again on a new server, because its controllers are slower on a busy machine.
func TestKubernetes(t *testing.T) {
	b, err := cached()
	if err != nil {
		t.Fatal(err)
	}
	if !b.exist() {
		t.Skip("there is no kube-apiserver in the cache: go run . build")
	}
	if *etcdFlag != "" {
		b.etcd = *etcdFlag
	}
	different := differing(t, b, load(t))
	if len(different) == 0 {
		return
	}
	var again []*script
	for _, r := range different {
		if !slices.Contains(again, r.script) {
			again = append(again, r.script)
		}
	}
	for _, r := range differing(t, b, again) {
		for _, d := range r.differences {
			t.Errorf("%s\n\trecorded %s\n\tis       %s", line(r.script.name, r.exchange.name, d), d.want, d.got)
		}
	}
}

// differing runs scripts on a new kube-apiserver and returns the exchanges with different answers.
func differing(t *testing.T, b binaries, scripts []*script) []result {
	t.Helper()
	results, err := playKubernetes(t.Context(), b, scripts)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(results, func(r result) bool { return len(r.differences) == 0 })
}

// TestFormat checks that scripts are not changed by being read and written.
func TestFormat(t *testing.T) {
	for _, s := range load(t) {
		again, err := parseScript(s.name, s.format())
		if err != nil {
			t.Fatal(err)
		}
		if got := again.format(); !bytes.Equal(got, s.format()) {
			t.Errorf("%s is %d bytes, and after reading and writing %d", s.name, len(s.format()), len(got))
		}
	}
}

// TestChanges checks how bodies change their template.
func TestChanges(t *testing.T) {
	s, err := parseScript("x", []byte("-- $t --\nspec: {list: [{a: 1}], gone: 1}\n"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.object(strings.Join([]string{"$t", "spec.list[0].a: 2", "spec.list[1]:", "  b: 3", `data["x.y"]: "4"`, "delete spec.gone"}, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := "data:\n  x.y: \"4\"\nspec:\n  list:\n  - a: 2\n  - b: 3"
	if text(got) != want {
		t.Errorf("got\n%s\nwant\n%s", text(got), want)
	}
}

// TestNormalize checks the symbols for resource versions and uids.
func TestNormalize(t *testing.T) {
	n := newNormalizer("127.0.0.1:1", "")
	const one, two = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"
	for _, c := range []struct{ name, rv, uid, wantRV, wantUID string }{
		{"a", "7", one, "<new>", "<new>"},
		{"b", "9", two, "<new>", "<new>"},
		{"a", "7", one, "<same>", "<uid of a>"},
		{"a", "10", one, "<new>", "<uid of a>"},
		{"a", "7", one, "<old>", "<uid of a>"},
	} {
		object := map[string]any{"metadata": map[string]any{"name": c.name, "resourceVersion": c.rv, "uid": c.uid}}
		got := n.normalize(200, nil, object).body.(map[string]any)["metadata"].(map[string]any)
		if got["resourceVersion"] != c.wantRV || got["uid"] != c.wantUID {
			t.Errorf("%v: got %v and %v", c, got["resourceVersion"], got["uid"])
		}
	}
}

// TestIntegers checks that integers which a float64 cannot hold reach the server and the answer as they are.
func TestIntegers(t *testing.T) {
	s, err := parseScript("x", []byte("-- $t --\nspec: {a: 9007199254740993}\n"))
	if err != nil {
		t.Fatal(err)
	}
	const want = "spec:\n  a: 9007199254740993\n  b: 9223372036854775807"
	for name, body := range map[string]string{
		"template": "$t\nspec.b: 9223372036854775807",
		"body":     "spec: {a: 9007199254740993, b: 9223372036854775807}",
	} {
		object, err := s.object(body)
		if err != nil || text(object) != want {
			t.Errorf("%s: got\n%s\n%v", name, text(object), err)
		}
		a := newNormalizer("127.0.0.1:1", "").normalize(200, nil, object)
		if text(a.body) != want {
			t.Errorf("%s: normalized to\n%s", name, text(a.body))
		}
		if a, err = parseAnswer(a.format()); err != nil || text(a.body) != want {
			t.Errorf("%s: recorded as\n%s\n%v", name, text(a.body), err)
		}
	}
	got, err := decode("application/yaml", []byte(want))
	if err != nil || text(got) != want {
		t.Errorf("got\n%s\n%v", text(got), err)
	}
}
